//! A web server for tests: one answer for each request, made by a function.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a request may take to come in.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server. Dropping it ends it.
pub struct HttpServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    stops: Arc<AtomicBool>,
}

impl HttpServer {
    /// Listens on loopback. `answer` gets a request, head and body, and says status and body.
    pub fn start(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (requests, stops) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, ends) = (Arc::clone(&requests), Arc::clone(&stops));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                // The test of a client that disconnects early checks that by itself.
                let _ = serve(stream, &answer, &seen);
            }
        });
        Self { address, requests, stops }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that came, head and body.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        // Wakes the thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    stream: TcpStream,
    answer: &impl Fn(&str) -> (u16, String),
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request)? == 0 {
            return Ok(());
        }
    }
    let length = request
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    request += &String::from_utf8_lossy(&body);
    let (status, text) = answer(&request);
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let head =
        format!("HTTP/1.1 {status} Test\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    reader.get_mut().write_all(head.as_bytes())?;
    reader.get_mut().write_all(text.as_bytes())
}
