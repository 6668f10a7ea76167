//! COMPRESS=DEFLATE (RFC 4978): a raw deflate stream (RFC 1951) each way, over any transport.
//!
//! Each flush ends with a sync flush. So no byte waits in the compressor for the next one, and the
//! output ends on a byte boundary. At such a point a new compressor can continue the stream,
//! because it never refers to bytes that it has not seen. [`Deflate::rest`] drops the compressor of
//! a session that has nothing to send, so an idle compressed session keeps only its decompressor.
//!
//! The peer may end its stream after any flush ([`Deflate::into_rest`], RFC 8437 §4.1). So bytes
//! after a flush are decompressed only when the session wants more.
//!
//! Memory: the compressor takes about 320 KiB while talking. The decompressor takes about 43 KiB;
//! its window of 32 KiB belongs to the peer's stream and cannot be freed. Pending output is at most
//! [`OUTPUT_MAX`] and one input.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes compressed in one go; larger writes are taken in pieces.
const INPUT_PIECE: usize = 16 * 1024;
/// Compressed bytes that may wait for the socket before a write has to wait with them: one TLS
/// record.
const OUTPUT_MAX: usize = 16 * 1024;
/// Compressed bytes read at once; on the stack while reading, kept only if the caller's buffer was
/// too small.
const READ_PIECE: usize = 4 * 1024;
/// Compressed bytes without output in one poll. Empty blocks with tables of their own take some
/// 100 ns a byte, so these take 2 ms.
const IDLE_MAX: usize = 16 * 1024;
/// What each call of the decompressor counts beside its bytes: an empty block of five bytes takes
/// as long as some of a table.
const CALL_BYTES: usize = 8;
/// The end of a sync flush: the length of an empty stored block, and its complement
/// (RFC 1951 §3.2.4).
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];
/// Level 1 finds most repetitions in protocol text, at a fraction of the work of the default.
const LEVEL: Compression = Compression::fast();

/// The state of both directions; the transport is lent to each call.
pub(crate) struct Deflate {
    compress: Option<Compress>,
    /// Compressed and not yet taken by the transport: `output[sent..]`.
    output: Vec<u8>,
    sent: usize,
    /// Something was compressed since the last sync flush.
    unflushed: bool,
    decompress: Decompress,
    /// Read from the transport and not yet decompressed: `input[taken..]`.
    input: Vec<u8>,
    taken: usize,
    /// The last output filled the caller's buffer, so that more may come without more input.
    more: bool,
    ended: bool,
    /// Our own stream has its end.
    finished: bool,
}

impl Deflate {
    pub(crate) fn new() -> Self {
        Self {
            compress: None,
            output: Vec::new(),
            sent: 0,
            unflushed: false,
            decompress: Decompress::new(false),
            input: Vec::new(),
            taken: 0,
            more: false,
            ended: false,
            finished: false,
        }
    }

    /// The bytes that were read after the end of the peer's stream, if the stream ended with the
    /// last decompressed byte.
    pub(crate) fn into_rest(mut self) -> Vec<u8> {
        self.input.split_off(self.taken)
    }

    /// Ends our stream: the last flush writes the mark of its end.
    pub(crate) fn poll_finish<T: AsyncWrite + Unpin>(
        &mut self,
        mut transport: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.finished {
            self.deflate(&[], FlushCompress::Finish)?;
            (self.finished, self.unflushed) = (true, false);
        }
        ready!(self.poll_drain(transport.as_mut(), cx))?;
        transport.poll_flush(cx)
    }

    /// Gives back what an idle session does not need. Does nothing in the middle of an answer.
    pub(crate) fn rest(&mut self) {
        if !self.unflushed && self.sent == self.output.len() {
            self.compress = None;
            self.output = Vec::new();
            self.sent = 0;
        }
    }

    pub(crate) fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        mut transport: Pin<&mut T>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut idle = 0;
        loop {
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if idle > IDLE_MAX {
                // A peer may send empty blocks for ever. Other tasks have their turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.more || self.taken < self.input.len() {
                let kept = std::mem::take(&mut self.input);
                let (used, produced) = self.inflate(&kept[self.taken..], buf)?;
                self.taken += used;
                if self.taken < kept.len() {
                    self.input = kept;
                } else {
                    self.taken = 0;
                }
                if produced > 0 {
                    return Poll::Ready(Ok(()));
                }
                idle += used + CALL_BYTES;
                continue;
            }
            let mut piece = [0; READ_PIECE];
            let mut read = ReadBuf::new(&mut piece);
            ready!(transport.as_mut().poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let (used, produced) = self.inflate(read.filled(), buf)?;
            if used < read.filled().len() {
                self.input = read.filled()[used..].to_vec();
                self.taken = 0;
            }
            if produced > 0 {
                return Poll::Ready(Ok(()));
            }
            idle += used + CALL_BYTES;
        }
    }

    /// Decompresses into what is free of `buf`: a small input that would expand to gigabytes does
    /// so only as fast as the session reads.
    fn inflate(&mut self, from: &[u8], buf: &mut ReadBuf<'_>) -> io::Result<(usize, usize)> {
        let flushed = memchr::memmem::find(from, &FLUSHED).map(|at| at + FLUSHED.len());
        let from = &from[..flushed.unwrap_or(from.len())];
        let room = buf.initialize_unfilled();
        let (in_before, out_before) = (self.decompress.total_in(), self.decompress.total_out());
        let status = self
            .decompress
            .decompress(from, room, FlushDecompress::Sync)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let used = (self.decompress.total_in() - in_before) as usize;
        let produced = (self.decompress.total_out() - out_before) as usize;
        self.more = produced > 0 && produced == room.len();
        match status {
            Status::StreamEnd if !self.more => self.ended = true,
            // It took no input and gave no output although there is input: it cannot continue.
            Status::Ok | Status::BufError if used == 0 && produced == 0 && !from.is_empty() => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            _ => {}
        }
        buf.advance(produced);
        Ok((used, produced))
    }

    pub(crate) fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        transport: Pin<&mut T>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.output.len() - self.sent >= OUTPUT_MAX {
            ready!(self.poll_drain(transport, cx))?;
        }
        let piece = &data[..data.len().min(INPUT_PIECE)];
        if !piece.is_empty() {
            self.deflate(piece, FlushCompress::None)?;
            self.unflushed = true;
        }
        Poll::Ready(Ok(piece.len()))
    }

    /// Compresses all of `data` and, for a sync flush, all that the compressor still holds.
    fn deflate(&mut self, mut data: &[u8], flush: FlushCompress) -> io::Result<()> {
        let compress = self.compress.get_or_insert_with(|| Compress::new(LEVEL, false));
        // Whether the last call filled the output. The next one then writes what it still held, and
        // may do nothing else: `miniz_oxide` leaves the flush to the call after that.
        let mut held = false;
        loop {
            self.output.reserve(data.len() / 2 + 64);
            let before = compress.total_in();
            compress
                .compress_vec(data, &mut self.output, flush)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let used = (compress.total_in() - before) as usize;
            data = &data[used..];
            let full = self.output.len() == self.output.capacity();
            if data.is_empty() && !full && !held {
                return Ok(());
            }
            held = full;
        }
    }

    pub(crate) fn poll_flush<T: AsyncWrite + Unpin>(
        &mut self,
        mut transport: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unflushed {
            self.deflate(&[], FlushCompress::Sync)?;
            self.unflushed = false;
        }
        ready!(self.poll_drain(transport.as_mut(), cx))?;
        transport.poll_flush(cx)
    }

    fn poll_drain<T: AsyncWrite + Unpin>(
        &mut self,
        mut transport: Pin<&mut T>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            match ready!(transport.as_mut().poll_write(cx, &self.output[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    /// One end of an in-memory pipe, deflated.
    struct End {
        deflate: Deflate,
        pipe: tokio::io::DuplexStream,
    }

    impl End {
        fn pair() -> (Self, Self) {
            let (one, two) = tokio::io::duplex(1 << 20);
            (Self { deflate: Deflate::new(), pipe: one }, Self { deflate: Deflate::new(), pipe: two })
        }

        async fn send(&mut self, mut data: &[u8]) {
            while !data.is_empty() {
                let pipe = &mut self.pipe;
                let count =
                    poll_fn(|cx| self.deflate.poll_write(Pin::new(&mut *pipe), cx, data)).await.unwrap();
                data = &data[count..];
            }
        }

        async fn flush(&mut self) {
            let pipe = &mut self.pipe;
            poll_fn(|cx| self.deflate.poll_flush(Pin::new(&mut *pipe), cx)).await.unwrap();
        }

        async fn receive(&mut self, length: usize, step: usize) -> Vec<u8> {
            let mut found = Vec::new();
            while found.len() < length {
                let mut piece = vec![0; step];
                let mut buf = ReadBuf::new(&mut piece);
                let pipe = &mut self.pipe;
                poll_fn(|cx| self.deflate.poll_read(Pin::new(&mut *pipe), cx, &mut buf)).await.unwrap();
                assert!(!buf.filled().is_empty());
                found.extend_from_slice(buf.filled());
            }
            found
        }
    }

    /// A peer that sends empty stored blocks (RFC 1951 §3.2.4) for ever.
    struct EmptyBlocks;

    impl AsyncRead for EmptyBlocks {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            const BLOCK: [u8; 5] = [0, 0, 0, 0xff, 0xff];
            while buf.remaining() >= BLOCK.len() {
                buf.put_slice(&BLOCK);
            }
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn input_without_output_is_read_with_pauses() {
        let (mut deflate, mut piece) = (Deflate::new(), [0; 64]);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for polls in 1..=3 {
            let mut buf = ReadBuf::new(&mut piece);
            let read = deflate.poll_read(Pin::new(&mut EmptyBlocks), &mut cx, &mut buf);
            assert!(read.is_pending() && buf.filled().is_empty());
            let taken = deflate.decompress.total_in() as usize;
            assert!(taken > 0 && taken <= polls * 2 * IDLE_MAX, "{taken} bytes in {polls} polls");
        }
    }

    /// The compressor's buffer of codes has 64 KiB: some 58,000 bytes of noise. It is full just
    /// when the answer ends. So the flush has more to write than fits into its output.
    #[test]
    fn a_flush_is_whole_whatever_the_length_of_the_answer() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(130_000)
        .collect();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for length in (54_000..noise.len()).step_by(1000) {
            let (mut deflate, mut wire) = (Deflate::new(), Vec::new());
            let mut rest = &noise[..length];
            while !rest.is_empty() {
                match deflate.poll_write(Pin::new(&mut wire), &mut cx, rest) {
                    Poll::Ready(Ok(taken)) => rest = &rest[taken..],
                    other => panic!("{other:?}"),
                }
            }
            assert!(matches!(deflate.poll_flush(Pin::new(&mut wire), &mut cx), Poll::Ready(Ok(()))));
            let mut found = Vec::with_capacity(length + 1);
            Decompress::new(false).decompress_vec(&wire, &mut found, FlushDecompress::Sync).unwrap();
            assert!(found == noise[..length], "{} of {length} bytes", found.len());
            assert!(wire.ends_with(&FLUSHED), "{length}");
        }
    }

    properties! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever is written between two flushes is there after the second, however small the
        /// reads, and whether or not the compressor rested.
        #[test]
        fn all_that_was_flushed_can_be_read(
            rounds in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), 1..40usize, any::<bool>()), 1..8),
            step in 1..5000usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (mut one, mut two) = End::pair();
                for (data, times, rest) in &rounds {
                    let data = data.repeat(*times);
                    for piece in data.chunks(700) {
                        one.send(piece).await;
                    }
                    one.flush().await;
                    if *rest {
                        one.deflate.rest();
                        assert!(one.deflate.compress.is_none());
                    }
                    assert!(two.receive(data.len(), step).await == data);
                }
            });
        }
    }
}
