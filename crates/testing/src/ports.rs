//! Ports that are kept for a program that listens later.

use tokio::net::TcpSocket;

/// Keeps a port of the loopback interface from being given to another program. A program that names the port can listen
/// on it; until then, connections are refused.
pub struct HeldPort {
    _socket: TcpSocket,
    port: u16,
}

impl HeldPort {
    /// A free port.
    pub fn new() -> Self {
        Self::at(0).unwrap()
    }

    /// This port, on which no program listens now.
    ///
    /// # Errors
    /// If a program listens on it.
    pub fn at(port: u16) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Two sockets with this option may have one port, if neither listens when the other one is bound. The system
        // gives such a port to no socket that asks for any.
        socket.set_reuseaddr(true)?;
        socket.bind(([127, 0, 0, 1], port).into())?;
        let port = socket.local_addr()?.port();
        Ok(Self { _socket: socket, port })
    }

    /// Its number.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn held_port_is_refused_and_given_to_no_other_program_until_one_names_it() {
        let held = HeldPort::new();
        let address = ("127.0.0.1", held.port());
        assert!(TcpStream::connect(address).is_err());
        let others: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|it| it.local_addr().unwrap().port() != held.port()));
        let _listener = TcpListener::bind(address).unwrap();
        assert!(TcpStream::connect(address).is_ok());
        assert!(HeldPort::at(held.port()).is_err());
    }
}
