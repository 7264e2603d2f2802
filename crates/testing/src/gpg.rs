//! Keys and signatures made by the machine's gpg, with any date.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::environment::{find_program, search_path};

/// A directory of keys. The agent that gpg starts for it ends with it.
pub struct Gpg {
    home: tempfile::TempDir,
}

/// A day relative to today: `-30` is 30 days ago.
pub type Day = i64;

impl Gpg {
    /// Creates a key on that day, with gpg's name of an algorithm. It does not expire.
    pub fn with_key(algorithm: &str, day: Day) -> Self {
        let gpg = Self { home: tempfile::tempdir().unwrap() };
        gpg.run(
            day,
            &["--quick-generate-key", "Mirror <mirror@localhost>", algorithm, "sign", "0"],
        );
        gpg
    }

    /// Makes the key expire on that day; the expiry is set one day after its creation.
    pub fn expire(&self, made: Day, end: Day) {
        let days = format!("{}d", end - made - 1);
        self.run(made + 1, &["--quick-set-expire", &self.fingerprint(), &days]);
    }

    /// Revokes the key with the certificate that gpg created with it.
    pub fn revoke(&self) {
        let name = format!("openpgp-revocs.d/{}.rev", self.fingerprint());
        let text = std::fs::read_to_string(self.home.path().join(name)).unwrap();
        // gpg puts a colon before it to prevent an accidental import.
        let certificate = self.home.path().join("revocation.asc");
        std::fs::write(&certificate, text.replace("\n:-----BEGIN", "\n-----BEGIN")).unwrap();
        self.run(0, &["--import", certificate.to_str().unwrap()]);
    }

    /// The key's fingerprint.
    pub fn fingerprint(&self) -> String {
        let keys = String::from_utf8(self.run(0, &["--with-colons", "--list-keys"])).unwrap();
        let line = keys.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.trim_matches(|c| "fpr:".contains(c)).to_owned()
    }

    /// The public key in a file, armored.
    pub fn key_file(&self) -> PathBuf {
        let file = self.home.path().join("public.asc");
        std::fs::write(&file, self.run(0, &["--armor", "--export"])).unwrap();
        file
    }

    /// A signature over `data`, made on that day, with that hash.
    pub fn sign(&self, data: &[u8], day: Day, hash: &str) -> Vec<u8> {
        let file = self.home.path().join("data");
        std::fs::write(&file, data).unwrap();
        let file = file.to_str().unwrap();
        self.run(day, &["--digest-algo", hash, "--output", "-", "--detach-sign", file])
    }

    fn run(&self, day: Day, arguments: &[&str]) -> Vec<u8> {
        let output = command("gpg", self.home.path())
            .args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""])
            .args(["--faked-system-time", &format!("{}!", moment(day))])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpg {arguments:?}: {said}");
        output.stdout
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = command("gpgconf", self.home.path()).args(["--kill", "gpg-agent"]).status();
    }
}

fn command(name: &str, home: &Path) -> Command {
    let mut command = Command::new(find_program(name).expect("the tests need gpg"));
    command.env_clear().env("PATH", search_path()).env("GNUPGHOME", home).stdin(Stdio::null());
    command
}

/// Seconds since 1970, the format of gpg.
fn moment(day: Day) -> u64 {
    let distance = Duration::from_hours(24 * day.unsigned_abs());
    let now = SystemTime::now();
    let moment = if day < 0 { now - distance } else { now + distance };
    moment.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}
