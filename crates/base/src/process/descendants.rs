//! Knows this process's children, and ends what they leave behind.
//!
//! What loses its parent below a *child subreaper* becomes that process's child (prctl(2)), as it
//! becomes that of process 1 in a container. So what left its group with `setsid` or `nohup` is still
//! found when the command is over. Nothing is ended that is not certainly below a command: see
//! [`Trust`]. Other systems than Linux have nothing like it, and what leaves its group lives on there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::table::{Process, processes};
use crate::platform::{
    Family, Pid, become_subreaper, ended_child, has_children, is_alive, kill_child, reap,
};

/// The variable by which the descendants of a command are known; its value names this process.
const MARK: &str = "STARTED_BY";

/// How long what was killed may take to be gone: the kernel needs a moment for large processes.
const LONGEST: Duration = Duration::from_secs(1);

/// How often that is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a process may be without an environment because it is just becoming another program.
const BECOMING: Duration = Duration::from_millis(50);

/// Which of the processes that lost their parents are descendants of a command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Trust {
    /// Nothing is adopted, so there are none.
    #[default]
    Nobody,
    /// Those that carry the mark, and what is below them: process 1 also gets what others started
    /// in its container, and a process that a shell has become has that shell's children.
    Marked,
    /// All: nobody else can have started them.
    Everybody,
}

#[derive(Debug, Default)]
struct Children {
    trust: Trust,
    /// The value of the mark.
    mark: String,
    /// Children that somebody waits for.
    running: BTreeSet<Pid>,
    /// Children that were killed and that nobody waits for.
    dying: BTreeSet<Pid>,
    /// Descendants that were found below one that was ended, by pid and start.
    known: BTreeSet<(Pid, u64)>,
}

static CHILDREN: Mutex<Option<Children>> = Mutex::new(None);

fn children<T>(act: impl FnOnce(&mut Children) -> T) -> T {
    let mut children: MutexGuard<'_, Option<Children>> =
        CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    act(children.get_or_insert_default())
}

/// Makes this process the parent of every descendant that loses its own, so that none outlives the
/// command that it belongs to. Must be called before children are started, and only by a program
/// whose children are all started by this module.
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

/// Starts a child that [`end_left_behind`] then knows.
pub(super) fn spawn(
    builder: &mut tokio::process::Command,
) -> std::io::Result<(tokio::process::Child, Group)> {
    children(|children| {
        if children.trust != Trust::Nobody {
            builder.env(MARK, &children.mark);
        }
        Family::prepare(builder);
        let child = builder.spawn()?;
        let family = Family::of(&child)?;
        children.running.insert(family.leader());
        Ok((child, Group { family, is_over: false }))
    })
}

/// A child and what it has started. Unless it is over, it is killed when this is dropped, so that a
/// cancelled future or a panic leaves nothing behind.
pub(super) struct Group {
    family: Family,
    is_over: bool,
}

impl Group {
    /// The leader, which is the child.
    pub(super) const fn leader(&self) -> Pid {
        self.family.leader()
    }

    /// Kills what is in the group.
    pub(super) fn kill(&self) {
        self.family.kill();
    }

    /// Kills what is left of a group whose leader was reaped, once: the number of an empty group
    /// may soon be somebody else's.
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

/// Ends what the commands that are over have left behind, and waits until it is gone. While another
/// command runs, what has lost its parent may be that one's, and nothing is ended.
pub async fn end_left_behind() {
    let begun = Instant::now();
    while children(|children| children.end_left_behind(begun.elapsed() < BECOMING)) {
        if begun.elapsed() > LONGEST {
            tracing::warn!("a process that a command left behind cannot be ended");
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes the exit status of adopted processes that have ended: as process 1 nobody else does.
pub fn reap_orphans() {
    children(|children| {
        if children.trust != Trust::Nobody {
            while let Some(pid) = ended_child()
                && !children.running.contains(&pid)
                && !children.dying.contains(&pid)
                && reap(pid)
            {}
        }
    });
}

impl Children {
    /// Kills what is left; returns whether any of it may still be there. With `may_become`, so may
    /// be what cannot be told from a stranger yet.
    fn end_left_behind(&mut self, may_become: bool) -> bool {
        self.dying.retain(|pid| is_alive(*pid));
        if self.trust == Trust::Nobody || !self.running.is_empty() {
            return !self.dying.is_empty();
        }
        // Mostly so, and much cheaper to learn than what is in the table of processes.
        if !has_children() {
            return false;
        }
        let all = processes();
        let mut left = !self.dying.is_empty();
        let alive: BTreeSet<_> = all.iter().map(|process| (process.pid, process.start)).collect();
        self.known.retain(|process| alive.contains(process));
        for orphan in self.orphans(&all) {
            match self.is_ours(&orphan) {
                Some(true) => {}
                Some(false) => continue,
                None => {
                    left |= may_become;
                    continue;
                }
            }
            // What is below it becomes an orphan next, and need not carry the mark.
            let below = below(orphan.pid, &all);
            self.known.extend(below.iter().map(|process| (process.pid, process.start)));
            // It is a child that was not waited for, so the number is still its own.
            match kill_child(orphan.pid) {
                Ok(()) => {
                    tracing::debug!(pid = orphan.pid.as_raw(), "killed what a command left behind");
                    left = true;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => left = true,
                Err(error) => tracing::warn!(%error, "cannot end what a command left behind"),
            }
        }
        left
    }

    /// Children that were adopted and live. Those that have ended are reaped.
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

    /// None where the process has no environment, as in the moment in which it becomes another
    /// program.
    fn is_ours(&self, orphan: &Process) -> Option<bool> {
        match self.trust {
            Trust::Nobody => Some(false),
            Trust::Everybody => Some(true),
            Trust::Marked if self.known.contains(&(orphan.pid, orphan.start)) => Some(true),
            Trust::Marked => orphan.has_variable(MARK, &self.mark),
        }
    }
}

/// Everything below `ancestor`.
fn below(ancestor: Pid, all: &[Process]) -> Vec<Process> {
    let mut by_parent: BTreeMap<Pid, Vec<&Process>> = BTreeMap::new();
    for process in all {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut parents) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = parents.pop() {
        // Taken out, so that a table that was read while it changed cannot lead in a circle.
        for child in by_parent.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}
