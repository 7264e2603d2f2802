//! Reads the body of a report, and checks that a registry can store it.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::{PlanReport, Report, StatusReport};
use butler_base::blocking::blocking;
use butler_base::event::LogLine;
use butler_base::http::{GzipError, decompress};

/// The longest accepted body in bytes, compressed and decompressed. A longer one is answered with 413.
pub const BODY_LIMIT: usize = 52_428_800;

/// The longest accepted saved plan in bytes. A longer one is answered with 413.
pub const PLAN_FILE_LIMIT: u64 = 256 * 1024 * 1024;

/// The largest number of lines in a batch.
pub const BATCH_LIMIT: usize = 13_107;

/// The longest status in bytes.
const STATUS_LIMIT: usize = 32;

/// The body of `request`, decompressed.
pub(crate) async fn body(request: Request) -> Result<Bytes, Refusal> {
    let encoding = request.headers().get(header::CONTENT_ENCODING).cloned();
    let body = Bytes::from_request(request, &()).await.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Refusal::too_large(BODY_LIMIT as u64)
        } else {
            Refusal::bad_request(rejection.body_text())
        }
    })?;
    let encoding = encoding.as_ref().map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(body),
        Some(b"gzip" | b"x-gzip") => {
            let decompressed = blocking(move |_| decompress(&body, BODY_LIMIT)).await;
            decompressed.map(Bytes::from).map_err(|error| match error {
                GzipError::TooLong(limit) => Refusal::too_large(limit as u64),
                GzipError::Damaged => Refusal::bad_request(error.to_string()),
            })
        }
        Some(_) => Err(Refusal::bad_request("the content encoding must be `gzip` or `identity`")),
    }
}

/// Checks the length of the saved plan in the body of a request.
pub(crate) fn check_plan_file(headers: &HeaderMap) -> Result<(), Refusal> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok()?.parse().ok());
    // The server reads no more than this length.
    let length: u64 = length.ok_or_else(|| Refusal::bad_request("`Content-Length` is required"))?;
    if length > PLAN_FILE_LIMIT { Err(Refusal::too_large(PLAN_FILE_LIMIT)) } else { Ok(()) }
}

/// The report in the body of `POST <endpoint>`.
pub(crate) fn report(endpoint: &str, body: &[u8]) -> Result<Report, Refusal> {
    match endpoint {
        "status" => status(parse(body)?).map(Report::Status),
        "logs" => logs(body).map(Report::Logs),
        "plan" => plan(parse(body)?).map(Report::Plan),
        "outputs" => outputs(body).map(Report::Outputs),
        "result" => result(body).map(Report::Result),
        _ => Err(Refusal::not_found("no such path")),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn status(report: StatusReport) -> Result<StatusReport, Refusal> {
    check(
        (1..=STATUS_LIMIT).contains(&report.status.len()),
        "`status` must be 1 to 32 bytes long",
    )?;
    check(!report.status.contains('\0'), "`status` must not contain NUL")?;
    let summary = report.plan_summary.as_deref().unwrap_or_default();
    check(!summary.contains('\0'), "`plan_summary` must not contain NUL")?;
    Ok(report)
}

fn logs(body: &[u8]) -> Result<Vec<LogLine>, Refusal> {
    #[derive(Deserialize)]
    struct Logs {
        logs: Vec<LogLine>,
    }
    let Logs { logs } = parse(body)?;
    check(logs.len() <= BATCH_LIMIT, "`logs` must have at most 13107 entries")?;
    let is_number = |line: &LogLine| i32::try_from(line.sequence).is_ok_and(|number| number > 0);
    check(logs.iter().all(is_number), "`sequence` must be from 1 to 2147483647")?;
    check(logs.iter().all(|line| !line.content.contains('\0')), "`content` must not contain NUL")?;
    Ok(logs)
}

fn plan(report: PlanReport) -> Result<PlanReport, Refusal> {
    let json = report.plan_json.as_ref().map_or("", |json| json.get());
    let text = report.plan_text.as_deref().unwrap_or_default();
    let has_json = json.starts_with('{') || (json.starts_with('"') && json != "\"\"");
    check(
        json.is_empty() || json == "\"\"" || has_json,
        "`plan_json` must be an object or a string",
    )?;
    check(has_json || !text.is_empty(), "`plan_json` or `plan_text` is required")?;
    check(!text.contains('\0'), "`plan_text` must not contain NUL")?;
    Ok(report)
}

fn outputs(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    #[derive(Deserialize)]
    struct Outputs {
        outputs: Map<String, Value>,
    }
    Ok(parse::<Outputs>(body)?.outputs)
}

fn result(body: &[u8]) -> Result<Box<RawValue>, Refusal> {
    let account: Box<RawValue> = parse(body)?;
    check(account.get().starts_with('{'), "the account of a run must be an object")?;
    Ok(account)
}

fn check(holds: bool, rule: &str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::bad_request(rule)) }
}
