//! A real PostgreSQL server for one test: a copy of a directory that initdb has made once, started and stopped by
//! `pg_ctl`.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::{User, getuid};
use tempfile::TempDir;

use super::hang;
use super::ports::HeldPort;
use super::project::project_path;

/// The arguments of initdb. The write-ahead log has small files, because the directory is copied.
const INITDB: &[&str] = &[
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
    "--wal-segsize=1",
    "--pwfile=password",
    "--pgdata=data",
];

/// The superuser's password, with characters that are special in URLs and HCL.
pub const PASSWORD: &str = "pw-${x}%{y}";

/// A running server on a free port of the loopback interface. Dropping it ends it.
pub struct Postgres {
    directory: TempDir,
    port: HeldPort,
    /// `PostgreSQL` refuses to run as root, so root's tests let an ordinary user run it.
    user: Option<User>,
}

impl Postgres {
    /// Creates a database cluster and starts its server.
    ///
    /// # Panics
    /// When the binaries are missing or the server does not start.
    #[must_use]
    pub fn start() -> Self {
        let server = Self::stopped();
        server.copy_new_cluster();
        server.launch();
        server
    }

    /// Copies a new database cluster. The first test that needs one makes it, and the others wait.
    fn copy_new_cluster(&self) {
        let version = self.command("initdb").arg("--version").output().unwrap().stdout;
        let version = String::from_utf8(version).unwrap();
        let user = self.user.as_ref().map_or_else(getuid, |user| user.uid);
        let made_of = format!("{version}{PASSWORD} {INITDB:?}");
        let place = project_path(&format!("target/tools/postgres-of-{user}"));
        std::fs::create_dir_all(&place).unwrap();
        let lock = File::create(place.join("lock")).unwrap();
        lock.lock().unwrap();
        let (cluster, record) = (place.join("data"), place.join("made-of"));
        if std::fs::read_to_string(&record).is_ok_and(|it| it == made_of) {
            copy(&cluster, &self.directory.path().join("data"));
            return;
        }
        if cluster.exists() {
            std::fs::remove_dir_all(&cluster).unwrap();
        }
        // Not there, because the user who runs PostgreSQL may have no access to the directory of the build.
        expect_success(&self.command("initdb").args(INITDB).output().unwrap(), "initdb");
        copy(&self.directory.path().join("data"), &cluster);
        std::fs::write(record, made_of).unwrap();
    }

    /// Starts a replica of this server. A transaction of this server ends only when the replica has it too.
    ///
    /// # Panics
    /// When the replica does not start.
    #[must_use]
    pub fn replica(&self) -> Self {
        let replica = Self::stopped();
        let mut copy = replica.command("pg_basebackup");
        copy.args(["--host=127.0.0.1", "--username=postgres", "--pgdata=data", "--no-sync"]);
        copy.args(["--write-recovery-conf", "--checkpoint=fast"]);
        copy.arg(format!("--port={}", self.port())).env("PGPASSWORD", PASSWORD);
        expect_success(&copy.output().unwrap(), "pg_basebackup");
        replica.launch();
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.execute("SELECT pg_reload_conf()");
        let state = "SELECT sync_state FROM pg_stat_replication";
        while self.query(state) != ["sync"] {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        replica
    }

    /// Makes a replica the server that accepts writes.
    ///
    /// # Panics
    /// When it cannot be promoted.
    pub fn promote(&self) {
        let promoted = self.command("pg_ctl").args(["promote", "-w", "-D", "data"]).status();
        assert!(promoted.unwrap().success(), "pg_ctl promote");
    }

    /// Ends the server as a crash does.
    ///
    /// # Panics
    /// When it does not end.
    pub fn crash(&self) {
        let mut stop = self.command("pg_ctl");
        let ended = stop.args(["stop", "-w", "-D", "data", "-m", "immediate"]).status();
        assert!(ended.unwrap().success(), "pg_ctl stop");
    }

    /// A directory for a server, with the file of its password.
    fn stopped() -> Self {
        let user = getuid().is_root().then(|| {
            ["postgres", "nobody"]
                .into_iter()
                .find_map(|name| User::from_name(name).unwrap())
                .expect("there is a user other than root to run PostgreSQL")
        });
        let directory = tempfile::tempdir().unwrap();
        hang::watch(directory.path());
        std::fs::write(directory.path().join("password"), PASSWORD).unwrap();
        if let Some(user) = &user {
            let owner = (Some(user.uid.as_raw()), Some(user.gid.as_raw()));
            for path in [directory.path(), &directory.path().join("password")] {
                std::os::unix::fs::chown(path, owner.0, owner.1).unwrap();
            }
        }
        Self { directory, port: HeldPort::new(), user }
    }

    /// Starts the server, also after a crash.
    ///
    /// # Panics
    /// When it does not start.
    pub fn launch(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off",
            self.port()
        );
        let mut start = self.command("pg_ctl");
        start.args(["start", "-w", "-D", "data", "-l", "postgres.log", "-o", &options]);
        if !start.status().unwrap().success() {
            let log = std::fs::read_to_string(self.directory.path().join("postgres.log"));
            panic!("PostgreSQL does not start: {}", log.unwrap_or_default());
        }
    }

    /// The port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.port()
    }

    /// The connection string of its database `postgres`, for its superuser.
    #[must_use]
    pub fn connection_string(&self) -> String {
        let password = PASSWORD.replace('%', "%25").replace('$', "%24");
        let password = password.replace('{', "%7B").replace('}', "%7D");
        format!("postgres://postgres:{password}@127.0.0.1:{}/postgres?sslmode=disable", self.port())
    }

    /// Executes a statement.
    ///
    /// # Panics
    /// When it fails.
    pub fn execute(&self, statement: &str) {
        drop(self.query(statement));
    }

    /// The rows that `statement` returns, columns separated by `|`.
    ///
    /// # Panics
    /// When the statement fails.
    #[must_use]
    pub fn query(&self, statement: &str) -> Vec<String> {
        let mut psql = self.command("psql");
        psql.args(["--host=127.0.0.1", "--username=postgres", "--no-psqlrc", "-Atq"]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-c", statement, "postgres"]);
        psql.arg(format!("--port={}", self.port())).env("PGPASSWORD", PASSWORD);
        let output = psql.output().unwrap();
        expect_success(&output, "psql");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(binary(program));
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        if program == "pg_ctl" {
            // The server would keep a pipe open for its lifetime.
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its data is removed, so it need not be written.
        let mut stop = self.command("pg_ctl");
        let _ = stop.args(["stop", "-w", "-D", "data", "-m", "immediate"]).status();
    }
}

/// Copies a directory with its owners and modes.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).output().unwrap();
    expect_success(&copied, "cp");
}

fn expect_success(output: &Output, program: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
}

/// The binary on PATH, or the newest of Debian's versions.
fn binary(name: &str) -> PathBuf {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut on_path = std::env::split_paths(&search_path).map(|path| path.join(name));
    if let Some(path) = on_path.find(|path| path.is_file()) {
        return path;
    }
    let mut versions: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin").join(name)))
        .filter(|path| path.is_file())
        .collect();
    versions.sort_by_key(|path| version(path));
    versions.pop().unwrap_or_else(|| panic!("`{name}` of PostgreSQL is not installed"))
}

/// The version in `/usr/lib/postgresql/<version>/bin/<name>`.
fn version(path: &Path) -> Option<u32> {
    path.ancestors().nth(2)?.file_name()?.to_str()?.parse().ok()
}
