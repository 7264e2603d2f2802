//! The log of a run, from the output of its child processes to the readers of the log.
//!
//! ```text
//! child ─► process::pump (lines of at most 1 MiB) ─┐
//! runner's own messages ───────────────────────────┴─► RunLog: redact, number
//!                                                         │
//!          ┌──────────────────┬──────────────────┬────────┴─────────┐
//!          ▼                  ▼                  ▼                  ▼
//!        spool              spool              spool              spool     memory, then a file
//!          │                  │                  │                  │
//!     Batch, upload    terminal::show     terminal::show        copy_log
//!          ▼                  ▼                  ▼                  ▼
//!       registry       terminal (lines       log.txt          page (--report)
//!                      of children only)
//! ```
//!
//! # Guarantees
//!
//! - [`RunLog`](run_log::RunLog) is the only way in, and it redacts each line before it is stored. A value
//!   that is registered later is not redacted in lines that were added before.
//! - A line of a child that ends with the beginning of a secret waits for the next line of its stream or for
//!   the end of the stream, because Terraform breaks long messages. Lines of the other stream do not wait.
//! - One counter numbers the lines of both streams, in the order of their arrival, from 1 to 2³¹ − 1 (the
//!   largest number that the registry can store). Later lines are dropped.
//! - Each reader has a queue of its own, so a reader that is slow, fails or panics does not affect the others.
//! - A reader gets its lines in ascending order of their numbers. Lines that could not be stored are replaced
//!   by one line with their count, the reason, and the number of the first of them.
//! - At most one batch is in flight, because readers of the registry's log skip lines that arrive after a
//!   higher number. A batch leaves the uploader when the registry has stored it. A batch without an answer is
//!   sent again with the same bytes, so a repeated line has the same number.
//!
//! # Memory and disk
//!
//! A queue holds at most the limit given to [`channel`](spool::channel) (2 MiB in a run), plus one block of
//! 64 KiB, or one longer line, at either end. A line takes its text and 9 bytes. More lines wait in a file of
//! at most 256 MiB (mode 0600), whose space is used again. The file is overwritten and removed when its
//! reader is dropped. The uploader additionally holds one batch: at most 10,000 lines and 2 MiB, or one line
//! whose JSON is longer. A reader with a thread (terminal, `log.txt`) additionally holds up to three pieces of 64 KiB and one line.
//!
//! # Back pressure
//!
//! A child never waits for a reader: [`Sender::send`](spool::Sender::send) does not block on the receiver. It
//! waits for the disk when a block goes to the file. If the file is full or cannot be written, new lines are
//! counted instead of stored until the file takes a block again or the reader has read all older lines.
//!
//! # Slow or unreachable registry
//!
//! A batch is sent an interval (`--log-interval`) after its first line arrived, or earlier if it is full.
//!
//! | Result | Reaction |
//! | --- | --- |
//! | delivered | The next batch is collected. |
//! | unreachable | The batch is kept. The pause doubles, from an interval to 30 s; `Retry-After` counts up to 60 s. |
//! | too large (413) | The batch and the limit for later ones are halved. A note replaces a line that is too large. |
//! | refused | Nothing more is sent. Lines stay in the queue and are reported as undelivered at the end. |
//! | run is over | The queue is emptied, and later lines are dropped. |
//!
//! # End of the run
//!
//! `RunLog::close` drops the senders; each reader sees the end after its last line. The uploader then sends at
//! once, retries at intervals, and has a deadline. After the deadline it returns the rest as
//! [`Undelivered`](undelivered::Undelivered); `run` writes these lines to the recovery directory. A request
//! that was aborted at the deadline may have arrived, so its lines can be both delivered and kept. An output
//! that accepts nothing for a while after the end is abandoned.
//!
//! # Rules for changes
//!
//! Nothing here may add a line without redaction, block a child on a reader, fail the run because a line
//! cannot be stored or delivered, send a line after one with a higher number, or change a batch between two
//! attempts.

pub(super) mod batch;
pub(super) mod block;
pub(super) mod log_copy;
pub(super) mod overflow;
pub(super) mod run_log;
pub(super) mod spool;
pub(super) mod undelivered;
pub(super) mod upload;
pub(super) mod waiting;
