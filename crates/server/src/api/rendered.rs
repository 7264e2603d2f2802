//! Parts of pages that need much memory while they are made: one at a time, and kept for those who ask next.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;

/// The most that is kept, in bytes. A larger part is made again each time.
const MOST: usize = 32 << 20;

/// The results that were made last, by keys that say from what.
#[derive(Debug, Default)]
pub struct Rendered {
    /// Held by the one that makes a part.
    turn: tokio::sync::Mutex<()>,
    kept: Mutex<VecDeque<(String, Bytes)>>,
}

impl Rendered {
    /// The part with this key, which is made if it is not kept.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) async fn get(
        &self,
        key: String,
        make: impl Future<Output = io::Result<Bytes>>,
    ) -> io::Result<Bytes> {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let _turn = self.turn.lock().await;
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let part = make.await?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((key, part.clone()));
        while kept.iter().map(|(_, part)| part.len()).sum::<usize>() > MOST {
            kept.pop_front();
        }
        Ok(part)
    }

    fn known(&self, key: &str) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == key).map(|(_, part)| part.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn part_is_made_once_for_all_who_ask_and_parts_one_after_the_other() {
        let rendered = Rendered::default();
        let (made, at_once, most) = <(AtomicUsize, AtomicUsize, AtomicUsize)>::default();
        let (parts, made_of, at_once_of, most_of) = (&rendered, &made, &at_once, &most);
        let ask = |key: &'static str| async move {
            let one = async {
                made_of.fetch_add(1, Ordering::Relaxed);
                let others = at_once_of.fetch_add(1, Ordering::Relaxed);
                most_of.fetch_max(others + 1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                at_once_of.fetch_sub(1, Ordering::Relaxed);
                Ok(Bytes::from(key))
            };
            parts.get(key.to_owned(), one).await.unwrap()
        };
        let keys = ["a", "b", "a", "a", "c", "b", "a", "c"];
        let all = futures_util::future::join_all(keys.map(ask)).await;
        assert_eq!(all, keys.map(Bytes::from));
        assert_eq!((made.into_inner(), most.into_inner()), (3, 1));
    }

    #[tokio::test]
    async fn little_is_kept_and_an_error_is_not() {
        let rendered = Rendered::default();
        let ask = async |key: &str, length: usize| {
            let mut is_made = false;
            let one = async {
                is_made = true;
                Ok(Bytes::from(vec![b'a'; length]))
            };
            assert_eq!(rendered.get(key.to_owned(), one).await.unwrap().len(), length);
            is_made
        };
        assert!(ask("old", MOST / 2).await);
        assert!(ask("new", MOST / 2).await);
        assert!(!ask("old", MOST / 2).await);
        assert!(ask("newer", 1).await);
        assert!(!ask("new", MOST / 2).await);
        assert!(ask("old", MOST / 2).await, "the oldest has made room");
        for _ in 0..2 {
            assert!(ask("too large", MOST + 1).await);
        }
        let failed = async { Err(io::ErrorKind::InvalidData.into()) };
        assert!(rendered.get("wrong".to_owned(), failed).await.is_err());
        assert!(ask("wrong", 1).await);
    }
}
