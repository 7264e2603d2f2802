//! Lines are the same however a pipe cuts its bytes.

use std::cell::RefCell;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::Sink;
use super::pump::{PumpTarget, pump};
use super::source::Source;
use crate::event::Stream;
use butler_fuzz::Target;

#[derive(Default)]
struct Lines(RefCell<Vec<Vec<u8>>>);

impl Sink for Lines {
    fn line(&self, _: Stream, line: &[u8]) {
        self.0.borrow_mut().push(line.to_vec());
    }

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

impl<S, B> Source for StreamReader<S, B>
where
    Self: AsyncRead + Unpin,
{
    async fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        AsyncReadExt::read(self, bytes).await
    }
}

#[test]
fn fuzz_framer_every_byte_arrives_once_in_its_line() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let samples: [&[u8]; 3] = [b"one\ntwo\r\n\nthree", b"\n\n\n", b"\xff\0\x1b[31mred\n"];
    Target { name: "framer", samples: &samples, tokens: &[b"\n", b"\r\n", b"x"], rounds: 600 }.run(
        |input, random| {
            let mut chunks = Vec::new();
            let mut rest = input;
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at(random.usize(1..=rest.len()));
                chunks.push(Ok::<_, std::io::Error>(bytes::Bytes::copy_from_slice(chunk)));
                rest = more;
            }
            let pipe = StreamReader::new(futures_util::stream::iter(chunks));
            let lines = Lines::default();
            let target = PumpTarget { sink: Some(&lines), file: None, memory: Some(input.len()) };
            let kept = runtime.block_on(pump(pipe, Stream::Stdout, target)).unwrap();
            assert_eq!(kept, input);
            let mut expected: Vec<_> = input.split(|byte| *byte == b'\n').collect();
            expected.pop_if(|last| last.is_empty());
            assert_eq!(*lines.0.borrow(), expected);
        },
    );
}
