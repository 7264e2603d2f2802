//! What errors of PostgreSQL mean.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};

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

/// Why a database cannot be used: whether it is away now, or refuses.
pub(super) fn of_opening(address: &impl Display, error: &tokio_postgres::Error) -> StoreError {
    let (address, why) = (address.to_string(), of_database(error));
    if is_away(error) {
        StoreError::Away { address, why }
    } else {
        StoreError::Connect { address, why }
    }
}

/// Why there is no first connection to a database.
pub(super) fn of_first_connection(address: &impl Display, error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => of_opening(address, &error),
        error @ PoolError::Timeout(_) => {
            StoreError::Away { address: address.to_string(), why: with_causes(&error) }
        }
        error => StoreError::Connect { address: address.to_string(), why: with_causes(&error) },
    }
}

/// Whether the same connection can succeed later without a change: nothing listens, the network or the name of the host
/// fails, or the server starts, ends or has no connection left. Everything else is an answer about who asks for what.
fn is_away(error: &tokio_postgres::Error) -> bool {
    if let Some(code) = error.code() {
        return is_away_code(code.code());
    }
    let mut cause = error.source();
    while let Some(this) = cause {
        if let Some(system) = this.downcast_ref::<io::Error>() {
            // A certificate that is not trusted, and a replica that takes no writes.
            return !matches!(system.kind(), ErrorKind::InvalidData | ErrorKind::PermissionDenied);
        }
        cause = this.source();
    }
    // The library tells the last one only by its text.
    error.is_closed() || error.to_string().starts_with("timeout")
}

/// Whether an answer with this code says that the server is not ready. The codes are those of the appendix "PostgreSQL
/// Error Codes".
fn is_away_code(code: &str) -> bool {
    match code {
        // A violation of the protocol, with which poolers say everything that they do not like.
        "08P01" => false,
        // Too many connections and other limits; it ends, has crashed, or starts.
        "53200" | "53300" | "53400" | "57P01" | "57P02" | "57P03" => true,
        code => code.starts_with("08"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_that_is_not_ready_is_away_and_one_that_refuses_is_not() {
        for (code, is_away) in [
            (SqlState::CANNOT_CONNECT_NOW, true),
            (SqlState::ADMIN_SHUTDOWN, true),
            (SqlState::CRASH_SHUTDOWN, true),
            (SqlState::TOO_MANY_CONNECTIONS, true),
            (SqlState::CONNECTION_FAILURE, true),
            (SqlState::SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION, true),
            (SqlState::PROTOCOL_VIOLATION, false),
            (SqlState::INVALID_PASSWORD, false),
            (SqlState::INVALID_AUTHORIZATION_SPECIFICATION, false),
            (SqlState::INVALID_CATALOG_NAME, false),
            (SqlState::INSUFFICIENT_PRIVILEGE, false),
            (SqlState::READ_ONLY_SQL_TRANSACTION, false),
            (SqlState::DATABASE_DROPPED, false),
            (SqlState::SYNTAX_ERROR, false),
        ] {
            assert_eq!(is_away_code(code.code()), is_away, "{code:?}");
        }
    }
}
