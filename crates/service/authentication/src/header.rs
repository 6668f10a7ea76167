//! Headers that others wrote. A session's task reads a short one, and another thread a long one.
//! A look at lines of two octets takes 4 ms for each MiB, and addresses take 30 ms.

use bytes::Bytes;
use posthaste_mime_summary::has_long_header;
use posthaste_net::elsewhere;

/// Reads the header of a message: at once if it is short, and else on another thread.
pub async fn reading_header<T: Send + 'static>(
    message: &Bytes,
    read: impl FnOnce(Bytes) -> T + Send + 'static,
) -> T {
    let own = message.clone();
    if has_long_header(message) { elsewhere(move || read(own)).await } else { read(own) }
}
