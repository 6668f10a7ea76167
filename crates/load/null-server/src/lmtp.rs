//! The null server's LMTP: one recipient a message, straight into INBOX.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Fault, Server};

/// Serves one connection to its end.
pub async fn serve(stream: TcpStream, server: Arc<Server>) {
    let _ = stream.set_nodelay(true);
    let _ = converse(stream, server).await;
}

async fn converse(mut stream: TcpStream, server: Arc<Server>) -> io::Result<()> {
    stream.write_all(b"220 null server\r\n").await?;
    let (mut input, mut recipient): (Vec<u8>, String) = (Vec::new(), String::new());
    loop {
        let Some(end) = memchr::memchr(b'\n', &input) else {
            if stream.read_buf(&mut input).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let line: Vec<u8> = input.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let reply: &[u8] = match line.split(' ').next().unwrap_or_default() {
            "LHLO" => b"250-null\r\n250 PIPELINING\r\n",
            "RCPT" => {
                recipient = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
                b"250 ok\r\n"
            }
            "DATA" => {
                stream.write_all(b"354 go on\r\n").await?;
                let mail = data(&mut stream, &mut input).await?;
                if !server.strikes(Fault::Lose, server.faults.lose_one_in) {
                    server.store.with(&recipient, |a| a.get_mut("INBOX").map(|m| m.add(mail.into(), 0)));
                }
                b"250 taken\r\n"
            }
            "QUIT" => {
                stream.write_all(b"221 bye\r\n").await?;
                return Ok(());
            }
            _ => b"250 ok\r\n",
        };
        stream.write_all(reply).await?;
    }
}

/// Bytes up to the lone dot, dots unstuffed.
async fn data(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut from = 0usize;
    let end = loop {
        if let Some(at) = memchr::memmem::find(&input[from..], b"\r\n.\r\n") {
            break from + at;
        }
        from = input.len().saturating_sub(4);
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let stuffed: Vec<u8> = input.drain(..end + 5).take(end + 2).collect();
    let mut mail = Vec::with_capacity(stuffed.len());
    for line in stuffed.split_inclusive(|&b| b == b'\n') {
        mail.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
    }
    Ok(mail)
}
