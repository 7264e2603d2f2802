//! The address of the running server, in its data directory, for commands that are given this directory.
//!
//! The server holds a lock on the file as long as it runs. Without the lock the address is an old one, and another program
//! can use its port now: no token must be sent there.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::platform::fs::{self as platform, OpenOptionsExt as _};

/// How often the server tries to take the lock, which a command has for a moment when it looks at the file.
const ATTEMPTS: u32 = 50;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest address, in bytes.
const LONGEST: u64 = 4096;

/// Which server uses a data directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerOfData {
    /// It answers at this address.
    At(String),
    /// None runs now.
    NotRunning,
    /// None has ever recorded its address.
    Unknown,
}

/// The server that uses the data directory `data`.
///
/// # Errors
/// If the file with its address exists, and cannot be read.
pub fn server_of(data: &Path) -> io::Result<ServerOfData> {
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(path(data)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ServerOfData::Unknown),
        file => file?,
    };
    match platform::try_lock(&file) {
        Ok(()) => Ok(ServerOfData::NotRunning),
        Err(TryLockError::WouldBlock) => {
            let mut address = String::new();
            file.take(LONGEST).read_to_string(&mut address)?;
            Ok(ServerOfData::At(address.trim().to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The file with the address; its lock ends with the value.
#[derive(Debug)]
pub(super) struct AddressFile(#[expect(dead_code, reason = "held until it is dropped")] File);

impl AddressFile {
    /// Takes the lock, and writes the address.
    ///
    /// # Errors
    /// If another server has the lock, or the file cannot be written.
    pub(super) fn write(data: &Path, address: &str) -> io::Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path(data))?;
        let mut attempts = 0;
        while let Err(error) = platform::try_lock(&file) {
            attempts += 1;
            match error {
                TryLockError::WouldBlock if attempts < ATTEMPTS => std::thread::sleep(PAUSE),
                TryLockError::WouldBlock => return Err(io::ErrorKind::WouldBlock.into()),
                TryLockError::Error(error) => return Err(error),
            }
        }
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(address.as_bytes())?;
        Ok(Self(file))
    }
}

/// The address under which this machine reaches a listener: one on all addresses is reached on the loopback interface.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

fn path(data: &Path) -> PathBuf {
    data.join("server.address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_counts_only_while_the_server_runs() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(server_of(data.path()).unwrap(), ServerOfData::Unknown);
        let at = |address: &str| ServerOfData::At(address.to_owned());
        for address in ["http://127.0.0.1:7373/", "http://[::1]:1/"] {
            let running = AddressFile::write(data.path(), address).unwrap();
            assert_eq!(server_of(data.path()).unwrap(), at(address));
            drop(running);
            assert_eq!(server_of(data.path()).unwrap(), ServerOfData::NotRunning);
        }
    }

    #[test]
    fn listener_on_all_addresses_is_reached_on_the_loopback_interface() {
        for (listener, expected) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("127.0.0.1:7373", "127.0.0.1:7373"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
