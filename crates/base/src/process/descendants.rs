//! Tracks this process's children, and ends the processes that they leave behind.
//!
//! A process that loses its parent below a *child subreaper* becomes that process's child
//! (prctl(2)), as it becomes the child of process 1 in a container. So the runner still finds
//! processes that left their group with `setsid` or `nohup`. It only ends processes that certainly
//! descend from a command: see [`Trust`]. Only Linux supports this; on other systems such processes
//! continue to run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::command::Session;
use super::table::{Process, processes};
use crate::platform::{
    Family, Pid, become_subreaper, child_pid, ended_child, has_children, is_alive, kill_child, reap,
};

/// The variable that identifies the descendants of a command; its value identifies this process.
const MARK: &str = "STARTED_BY";

/// How long killed processes may take to disappear: the kernel needs a moment for large ones.
const LONGEST: Duration = Duration::from_secs(1);

/// The interval of these checks.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a process may lack an environment while it executes another program.
const EXEC_WAIT: Duration = Duration::from_millis(50);

/// Which orphaned processes count as descendants of a command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Trust {
    /// None, because this process does not adopt any.
    #[default]
    NoProcess,
    /// Those with the mark, and their descendants: process 1 also adopts processes that others
    /// started in its container, and a process that replaced a shell has that shell's children.
    Marked,
    /// All, because no other process can have started them.
    Everybody,
}

#[derive(Debug, Default)]
struct Children {
    trust: Trust,
    /// The value of the mark.
    mark: String,
    /// Running children that have a waiter.
    running: BTreeSet<Pid>,
    /// Killed children without a waiter.
    dying: BTreeSet<Pid>,
    /// Descendants that were found below an ended process, by pid and start time.
    known: BTreeSet<(Pid, u64)>,
}

static CHILDREN: Mutex<Option<Children>> = Mutex::new(None);

fn children<T>(act: impl FnOnce(&mut Children) -> T) -> T {
    let mut children: MutexGuard<'_, Option<Children>> =
        CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    act(children.get_or_insert_default())
}

/// Makes this process the parent of each descendant that loses its own parent, so that no
/// descendant outlives its command. Must be called before children are started, and only by a
/// program that starts all its children through this module.
pub fn adopt_orphans() {
    if !become_subreaper() {
        return;
    }
    let own = Pid::this();
    let alone = own != Pid::from_raw(1) && !has_children();
    children(|children| {
        children.trust = if alone { Trust::Everybody } else { Trust::Marked };
        children.mark = format!("butler-runner-{:016x}", fastrand::u64(..));
    });
}

/// Starts a child and registers it for [`end_orphans`].
pub(super) fn spawn(
    builder: &mut tokio::process::Command,
    session: Session,
) -> std::io::Result<(tokio::process::Child, Group)> {
    children(|children| {
        if children.trust != Trust::NoProcess {
            builder.env(MARK, &children.mark);
        }
        match session {
            Session::Shared => Family::prepare(builder),
            Session::Own => Family::prepare_with_session(builder),
        }
        let child = builder.spawn()?;
        let family = Family::of(&child)?;
        children.running.insert(family.leader());
        Ok((child, Group { family, is_over: false }))
    })
}

/// Runs a program that ends soon, without variables, and waits for it. It is registered, so that [`reap_orphans`]
/// does not take its exit status.
///
/// # Errors
/// If it cannot be started, or fails; its standard error is part of the message.
pub fn run_helper(program: &Path, arguments: &[OsString]) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "one of four places that start processes")]
    let mut builder = std::process::Command::new(program);
    // Pipes replace /dev/null, which an empty root does not have.
    builder.args(arguments).env_clear();
    builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, pid) = children(|children| {
        let child = builder.spawn()?;
        let pid = child_pid(&child);
        children.running.insert(pid);
        io::Result::Ok((child, pid))
    })?;
    let ended = child.wait_with_output();
    children(|children| children.running.remove(&pid));
    let ended = ended?;
    if ended.status.success() {
        return Ok(());
    }
    let (status, said) = (ended.status, String::from_utf8_lossy(&ended.stderr).trim().to_owned());
    Err(io::Error::other(format!("`{}` ended with {status}: {said}", program.display())))
}

/// A child and its process group. Dropping it kills a group that still runs, so that a cancelled
/// future or a panic does not leave processes behind.
pub(super) struct Group {
    family: Family,
    is_over: bool,
}

impl Group {
    /// The leader, which is the child.
    pub(super) const fn leader(&self) -> Pid {
        self.family.leader()
    }

    /// Kills the group.
    pub(super) fn kill(&self) {
        self.family.kill();
    }

    /// Kills the rest of a group whose leader was reaped, once: the id of an empty group can soon
    /// belong to another group.
    pub(super) fn finish(mut self) {
        self.kill();
        self.is_over = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
        }
        children(|children| {
            children.running.remove(&self.leader());
            if !self.is_over {
                children.dying.insert(self.leader());
            }
        });
    }
}

/// Ends the orphaned processes of completed commands, and waits until they are gone. While another
/// command runs, an orphaned process may belong to that command, and no process is ended.
pub async fn end_orphans() {
    let begun = Instant::now();
    while children(|children| children.end_orphans(begun.elapsed() < EXEC_WAIT)) {
        if begun.elapsed() > LONGEST {
            tracing::warn!("cannot end an orphaned process");
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reaps adopted processes that have ended; if this is process 1, no other process does.
pub fn reap_orphans() {
    children(|children| {
        if children.trust != Trust::NoProcess {
            while let Some(pid) = ended_child()
                && !children.running.contains(&pid)
                && !children.dying.contains(&pid)
                && reap(pid)
            {}
        }
    });
}

impl Children {
    /// Kills the rest; returns whether a process may still run. With `may_become`, a process that
    /// cannot be identified yet counts as running.
    fn end_orphans(&mut self, may_become: bool) -> bool {
        self.dying.retain(|pid| is_alive(*pid));
        if self.trust == Trust::NoProcess || !self.running.is_empty() {
            return !self.dying.is_empty();
        }
        // The usual case, and much cheaper than reading the process table.
        if !has_children() {
            return false;
        }
        let all = processes();
        let mut left = !self.dying.is_empty();
        let alive: BTreeSet<_> = all.iter().map(|process| (process.pid, process.start)).collect();
        self.known.retain(|process| alive.contains(process));
        for orphan in self.orphans(&all) {
            match self.is_descendant(&orphan) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    left |= may_become;
                    continue;
                }
            }
            // Its children become orphans next, and may lack the mark.
            let below = descendants_of(orphan.pid, &all);
            self.known.extend(below.iter().map(|process| (process.pid, process.start)));
            // The child was not waited for, so the pid still belongs to it.
            match kill_child(orphan.pid) {
                Ok(()) => {
                    tracing::debug!(pid = orphan.pid.as_raw(), "killed an orphaned process");
                    left = true;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => left = true,
                Err(error) => tracing::warn!(%error, "cannot kill an orphaned process"),
            }
        }
        left
    }

    /// Adopted children that still run. Reaps those that have ended.
    fn orphans(&self, all: &[Process]) -> Vec<Process> {
        let own = Pid::this();
        let adopted = all.iter().filter(|process| {
            process.parent == own
                && !self.running.contains(&process.pid)
                && !self.dying.contains(&process.pid)
        });
        adopted
            .filter(|process| {
                let zombie = process.is_zombie;
                if zombie {
                    let _ = reap(process.pid);
                }
                !zombie
            })
            .cloned()
            .collect()
    }

    /// None if the process has no environment, as in the moment in which it executes another
    /// program.
    fn is_descendant(&self, orphan: &Process) -> Option<bool> {
        match self.trust {
            Trust::NoProcess => Some(false),
            Trust::Everybody => Some(true),
            Trust::Marked if self.known.contains(&(orphan.pid, orphan.start)) => Some(true),
            Trust::Marked => orphan.has_variable(MARK, &self.mark),
        }
    }
}

/// All descendants of `ancestor`.
fn descendants_of(ancestor: Pid, all: &[Process]) -> Vec<Process> {
    let mut by_parent: BTreeMap<Pid, Vec<&Process>> = BTreeMap::new();
    for process in all {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut parents) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = parents.pop() {
        // Removed, so that a table that changed while it was read cannot cause an endless loop.
        for child in by_parent.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}
