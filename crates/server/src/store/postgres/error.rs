//! What errors of PostgreSQL mean.

use std::error::Error;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// What a user reads who connects to a replica.
const READ_ONLY: &str = "; it is a replica or read-only: connect to the primary";

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = of_database(&error);
        if error.code() == Some(&SqlState::DISK_FULL) {
            return Self::Full(text);
        }
        Self::Unavailable(text)
    }
}

/// An error with advice.
pub(super) fn of_database(error: &tokio_postgres::Error) -> String {
    let Some(answer) = error.as_db_error() else {
        let text = with_causes(error);
        // The words of the library, for a server that it does not accept as the primary.
        let advice = if text.ends_with("does not allow writes") { READ_ONLY } else { "" };
        return format!("{text}{advice}");
    };
    let advice = match *answer.code() {
        SqlState::READ_ONLY_SQL_TRANSACTION => READ_ONLY,
        SqlState::INSUFFICIENT_PRIVILEGE => "; grant it to the user of the store",
        SqlState::DISK_FULL => "; free space on its disk",
        SqlState::TOO_MANY_CONNECTIONS => "; increase its `max_connections`",
        SqlState::QUERY_CANCELED => "; it was not answered within the statement timeout",
        _ => "",
    };
    format!("{}{advice}", answer.message())
}

/// Why there is no connection.
pub(super) fn of_pool(error: PoolError) -> String {
    match error {
        PoolError::Backend(error) => of_database(&error),
        error => with_causes(&error),
    }
}

/// A value in the database is not one of ours.
pub(super) fn unreadable(error: impl Error) -> StoreError {
    StoreError::Unavailable(format!("it contains something unreadable: {error}"))
}

/// An error and its causes, which it does not print.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}
