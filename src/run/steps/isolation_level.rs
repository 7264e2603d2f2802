//! Which isolation is in force for a run.

use super::handover::{layers_states, state_directories};
use crate::run::context::Context;
use crate::run::directory::run_user::{RunUser, States};
use crate::run::failure::Failure;
use crate::settings::IsolationLevel;
use butler_base::error::{FailureClass, chain};
use butler_base::event::Phase;
use butler_base::platform::{Landlock, closed_to_users, landlock, user_change_problem};
use butler_protocol::spec::{GitCredentials, RunSpec, Source};

/// The isolation in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum Level {
    /// Landlock.
    Landlock,
    /// The user with this number, which only this run has.
    User(u32),
}

/// Whether the run is isolated, and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Decision {
    NotIsolated,
    /// The user wants an isolation only if there is one.
    NotAvailable,
    Landlock(Landlock),
    User,
}

/// Decides whether the run is isolated, and logs it. Takes a user for it if it needs one.
///
/// # Errors
/// If the user requires an isolation that is not available.
pub(in crate::run) fn isolation_level(
    context: &Context<'_>,
    spec: &RunSpec,
) -> Result<Option<Level>, Failure> {
    let settings = &context.settings.isolation;
    let user_problem = || {
        let in_place = spec.source.is_in_place();
        let text = "the run works in a directory of its user, whose files would need another owner";
        in_place.then(|| text.to_owned()).or_else(user_change_problem)
    };
    match decide(settings.level, landlock, user_problem)? {
        Decision::NotIsolated => Ok(None),
        Decision::NotAvailable => {
            context.log.warn("this kernel does not have Landlock, so the run is not isolated: the module can use all files of this user");
            Ok(None)
        }
        Decision::Landlock(landlock) => {
            let missing = match landlock {
                Landlock::FilesButTruncation => {
                    "; this kernel (Linux before 6.2) cannot keep it from truncating other files and from sending signals"
                }
                Landlock::Files => "; this kernel cannot keep it from sending signals",
                Landlock::FilesAndSignals => "",
            };
            context.log.announce(&format!(
                "Isolation: Landlock; the module can use files of this run and of the system{missing}"
            ));
            Ok(Some(Level::Landlock))
        }
        Decision::User => {
            let run = context.directory.private().path();
            let runner = &context.settings.git.executable;
            let of_server = settings.states.as_deref();
            let own = layers_states(of_server, &state_directories(spec));
            let states = States { of_server, own };
            let user = RunUser::take(settings.users, runner, run, states).map_err(|error| {
                // A number is free again when another run has ended, so a server tries again.
                let failure = Failure::because(Phase::Config, chain(&error)).classed(FailureClass::Platform);
                failure.advise(
                    "end other runs, or name more users with --isolation-users (BUTLER_ISOLATION_USERS)",
                )
            })?;
            let id = user.id();
            context.directory.keep_user(user);
            context.log.announce(&format!(
                "Isolation: the user {id}; the module can use files of this run and those that all users can use"
            ));
            warn_of_closed_runner(context, spec);
            Ok(Some(Level::User(id)))
        }
    }
}

/// git executes the runner as the user of the run, to get a login for repositories of modules.
fn warn_of_closed_runner(context: &Context<'_>, spec: &RunSpec) {
    let has_login = matches!(
        &spec.source,
        Source::Git(git) if matches!(git.credentials, GitCredentials::Token { .. } | GitCredentials::Password { .. })
    );
    let runner = &context.settings.git.executable;
    if let Some(closed) = closed_to_users(runner).filter(|_| has_login) {
        let (runner, closed) = (runner.display(), closed.display());
        context.log.warn(&format!(
            "the user of this run cannot execute `{runner}`, because `{closed}` is closed to other users, so git gets no login for repositories of modules: install the runner where all users can execute it, such as /usr/local/bin"
        ));
    }
}

fn decide(
    level: IsolationLevel,
    landlock: impl FnOnce() -> Option<Landlock>,
    user_problem: impl FnOnce() -> Option<String>,
) -> Result<Decision, Failure> {
    let failed = |reason: String| Failure::because(Phase::Config, reason);
    match level {
        IsolationLevel::None => Ok(Decision::NotIsolated),
        IsolationLevel::Landlock => landlock().map(Decision::Landlock).ok_or_else(|| {
            failed("cannot isolate the run: this kernel does not have Landlock, or has disabled it".to_owned())
                .advise("use Linux 5.13 or later with `landlock` in its list of security modules (the boot parameter `lsm=`), or choose --isolation none")
        }),
        IsolationLevel::User => match user_problem() {
            None => Ok(Decision::User),
            Some(problem) => {
                Err(failed(format!("cannot isolate the run with a user of its own: {problem}"))
                    .advise("start the runner as root, with a module from git, or choose --isolation landlock"))
            }
        },
        IsolationLevel::Auto => Ok(landlock().map_or_else(
            || user_problem().map_or(Decision::User, |_| Decision::NotAvailable),
            Decision::Landlock,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_isolated_only_as_far_as_the_kernel_can() {
        let levels =
            [Landlock::FilesButTruncation, Landlock::Files, Landlock::FilesAndSignals].map(Some);
        let kernels = [&[None][..], &levels].concat();
        let problem = || Some("not root".to_owned());
        for kernel in kernels {
            let decided = |level| decide(level, || kernel, problem).ok();
            assert_eq!(decided(IsolationLevel::None), Some(Decision::NotIsolated));
            let isolated = kernel.map(Decision::Landlock);
            assert_eq!(decided(IsolationLevel::Landlock), isolated);
            let auto = isolated.unwrap_or(Decision::NotAvailable);
            assert_eq!(decided(IsolationLevel::Auto), Some(auto));
            assert_eq!(decided(IsolationLevel::User), None);
        }
        let failure = decide(IsolationLevel::Landlock, || None, problem).unwrap_err();
        assert!(failure.reason.contains("does not have Landlock"), "{}", failure.reason);
        assert!(failure.advice.unwrap().contains("Linux 5.13"));
        let failure = decide(IsolationLevel::User, || None, problem).unwrap_err();
        assert!(failure.reason.contains("not root"), "{}", failure.reason);
        assert!(failure.advice.unwrap().contains("as root"));
    }

    #[test]
    fn run_as_root_without_landlock_has_a_user_of_its_own() {
        let decided = |level, landlock| decide(level, || landlock, || None).ok();
        let landlock = Some(Landlock::Files);
        assert_eq!(decided(IsolationLevel::Auto, None), Some(Decision::User));
        assert_eq!(decided(IsolationLevel::User, None), Some(Decision::User));
        assert_eq!(decided(IsolationLevel::User, landlock), Some(Decision::User));
        let with_landlock = decided(IsolationLevel::Auto, landlock);
        assert_eq!(with_landlock, Some(Decision::Landlock(Landlock::Files)));
        assert_eq!(decided(IsolationLevel::Landlock, None), None);
        assert_eq!(decided(IsolationLevel::None, None), Some(Decision::NotIsolated));
    }
}
