//! The state lock that a killed command has left, and how it is described to users.

use butler_protocol::backend::StateLock;

/// The state lock of a command that was killed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LeftLock {
    /// It ended with the command's process.
    Ended,
    /// The state is not locked.
    Free,
    /// The command left it, and it was removed.
    Removed {
        /// Its id.
        id: String,
    },
    /// The command left it.
    Own {
        /// Its id.
        id: String,
        /// Why it could not be removed; none if it was not tried.
        failure: Option<String>,
    },
    /// The state is locked, possibly by another user or process.
    Unsure(StateLock),
    /// The backend did not answer.
    Unknown,
}

impl std::fmt::Display for LeftLock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended => formatter.write_str("its state lock has ended with it"),
            Self::Free => formatter.write_str("the state lock is free"),
            Self::Removed { id } => {
                write!(formatter, "the state lock `{id}` that it left was removed")
            }
            Self::Own { id, failure: None } => write!(formatter, "it left the state lock `{id}`"),
            Self::Own { id, failure: Some(failure) } => {
                write!(
                    formatter,
                    "it left the state lock `{id}`, which cannot be removed: {failure}"
                )
            }
            Self::Unsure(lock) => write!(formatter, "{lock}, which may be its own lock"),
            Self::Unknown => formatter.write_str("its state lock may be left"),
        }
    }
}

impl LeftLock {
    /// The lock that is held, as far as it is known.
    #[must_use]
    pub fn lock(&self) -> Option<StateLock> {
        match self {
            Self::Ended | Self::Free | Self::Removed { .. } | Self::Unknown => None,
            Self::Own { id, .. } => Some(StateLock { id: Some(id.clone()), holder: None }),
            Self::Unsure(lock) => Some(lock.clone()),
        }
    }

    /// The hint for the user; `product` is the executable to run.
    #[must_use]
    pub fn advice(&self, product: &str) -> Option<String> {
        let removal = self.removal(product)?;
        Some(match self {
            Self::Own { failure: None, .. } => {
                format!(
                    "{removal}; --force-unlock-own (BUTLER_FORCE_UNLOCK_OWN) removes such locks automatically"
                )
            }
            _ => removal,
        })
    }

    /// How the user removes it with the executable `product`; none if there is nothing to remove.
    #[must_use]
    pub fn removal(&self, product: &str) -> Option<String> {
        match self {
            Self::Ended | Self::Free | Self::Removed { .. } => None,
            Self::Own { id, .. } => {
                Some(format!("run `{product} force-unlock {id}` in the module"))
            }
            Self::Unsure(StateLock { id: Some(id), .. }) => Some(format!(
                "when no other run holds it, run `{product} force-unlock {id}` in the module"
            )),
            Self::Unsure(_) | Self::Unknown => Some(format!(
                "the next run reports a lock that is left; `{product} force-unlock` removes it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_does_not_recommend_an_option_that_was_used() {
        let own = |failure| LeftLock::Own { id: "x".to_owned(), failure };
        let flag = "--force-unlock-own";
        assert!(own(None).advice("terraform").unwrap().contains(flag));
        let failed = own(Some("no".to_owned())).advice("terraform").unwrap();
        assert!(!failed.contains(flag) && failed.contains("force-unlock x"), "{failed}");
    }
}
