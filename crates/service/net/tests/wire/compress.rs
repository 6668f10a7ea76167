//! COMPRESS=DEFLATE, in the clear and inside TLS.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use posthaste_net::{Certificates, Connection, Mode, NetError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::peer::{LONG, Server, expect, handshake, noise, within};

/// A client's two halves of a raw deflate stream.
pub struct Client<T> {
    stream: T,
    compress: Compress,
    decompress: Decompress,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    pub fn new(stream: T) -> Self {
        let compress = Compress::new(Compression::default(), false);
        Self { stream, compress, decompress: Decompress::new(false) }
    }

    pub async fn send(&mut self, data: &[u8]) {
        let mut packed = Vec::with_capacity(data.len() + data.len() / 100 + 1000);
        self.compress.compress_vec(data, &mut packed, FlushCompress::Sync).unwrap();
        within(self.stream.write_all(&packed)).await.unwrap();
        within(self.stream.flush()).await.unwrap();
    }

    /// Reads until this many bytes were decompressed; returns them and the number of bytes they
    /// came in.
    pub async fn receive(&mut self, length: usize) -> (Vec<u8>, usize) {
        let mut found = Vec::with_capacity(length);
        let mut packed = 0;
        while found.len() < length {
            let mut piece = vec![0; 8192];
            let count = within(self.stream.read(&mut piece)).await.unwrap();
            assert_ne!(count, 0, "the server closed the connection");
            packed += count;
            let before = self.decompress.total_in();
            let mut used = 0;
            while used < count && found.len() < length {
                let from = &piece[used..count];
                self.decompress.decompress_vec(from, &mut found, FlushDecompress::Sync).unwrap();
                used = (self.decompress.total_in() - before) as usize;
            }
        }
        (found, packed)
    }
}

/// Answers `OK`, starts compression, and echoes its input.
async fn compressed_echo(mut connection: Connection) {
    connection.fill(100, LONG).await.unwrap();
    connection.consume(usize::MAX);
    connection.write_all_within(b"OK\r\n", LONG).await.unwrap();
    connection.start_deflate().unwrap();
    assert!(connection.is_compressed());
    assert!(matches!(connection.start_deflate(), Err(NetError::CompressionActive)));
    let held = Certificates::self_signed_in_memory("").unwrap();
    assert!(matches!(connection.start_tls(&held, LONG).await, Err(NetError::TlsActive)));
    while connection.fill(1 << 20, LONG).await.is_ok() {
        let input = connection.input_mut().split();
        connection.write_all_within(&input, LONG).await.unwrap();
        if input.len().is_multiple_of(2) {
            connection.rest();
        }
    }
}

async fn round_trips(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    stream.write_all(b"COMPRESS\r\n").await.unwrap();
    expect(&mut stream, b"OK\r\n").await;
    let mut client = Client::new(stream);
    // A small write is readable at once: nothing else is sent until it is.
    for small in [&b"a"[..], b"", b"bc", b"* 1 FETCH (FLAGS ())\r\n", b"def"] {
        client.send(small).await;
        assert_eq!(client.receive(small.len()).await.0, small);
    }
    let text = b"* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n".repeat(20_000);
    for (data, packed_max) in [(text, 20_000), (noise(700_000), 710_000), (vec![0; 900_000], 20_000)] {
        // In pieces, so that neither end waits for the other with full buffers.
        let mut total = 0;
        for piece in data.chunks(30_000) {
            client.send(piece).await;
            let (found, packed) = client.receive(piece.len()).await;
            assert!(found == piece);
            total += packed;
        }
        assert!(total < packed_max, "{total}");
    }
}

#[tokio::test]
async fn in_the_clear() {
    let server = Server::start(Mode::Plain, |_| {}, compressed_echo);
    round_trips(server.connect().await).await;
}

#[tokio::test]
async fn inside_tls() {
    let held = Certificates::self_signed_in_memory("").unwrap();
    let server = Server::start(
        Mode::ImplicitTls,
        |options| options.certificates = Some(held.clone()),
        compressed_echo,
    );
    round_trips(handshake(server.connect().await, &held).await.unwrap()).await;
}

#[tokio::test]
async fn a_large_answer_streams() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.start_deflate().unwrap();
            for chunk in noise(5_000_000).chunks(100_000) {
                connection.write_more_within(chunk, LONG).await.unwrap();
            }
            connection.close(LONG).await.unwrap();
        },
    );
    let mut client = Client::new(server.connect().await);
    let (found, _) = client.receive(5_000_000).await;
    assert!(found == noise(5_000_000));
}

#[tokio::test]
async fn a_bomb_expands_only_as_far_as_it_is_read() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.start_deflate().unwrap();
            let full = loop {
                if let Err(error) = connection.fill(10_000, LONG).await {
                    break error;
                }
            };
            assert!(matches!(full, NetError::InputFull { .. }), "{full:?}");
            assert_eq!(connection.input().len(), 10_000);
            connection.write_all_within(b"done", LONG).await.unwrap();
        },
    );
    let mut client = Client::new(server.connect().await);
    client.send(&vec![0; 50_000_000]).await;
    assert_eq!(client.receive(4).await.0, b"done");
}

#[tokio::test]
async fn garbage_is_an_error() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.start_deflate().unwrap();
            let outcome = connection.fill(10_000, LONG).await;
            assert!(matches!(outcome, Err(NetError::Io(_))), "{outcome:?}");
            connection.write_all_within(b"refused", LONG).await.unwrap();
        },
    );
    let mut client = Client::new(server.connect().await);
    client.stream.write_all(&[0xff; 100]).await.unwrap();
    assert_eq!(client.receive(7).await.0, b"refused");
}

#[tokio::test]
async fn a_client_that_does_not_wait_is_refused() {
    let server = Server::start(
        Mode::Plain,
        |_| {},
        |mut connection: Connection| async move {
            connection.fill(100, LONG).await.unwrap();
            connection.consume(4);
            let outcome = connection.start_deflate();
            assert!(matches!(outcome, Err(NetError::PipelinedUpgrade(_))), "{outcome:?}");
            connection.write_all_within(b"refused", LONG).await.unwrap();
        },
    );
    let mut stream = server.connect().await;
    stream.write_all(b"GO\r\nEVIL").await.unwrap();
    expect(&mut stream, b"refused").await;
}
