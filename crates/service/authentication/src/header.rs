//! Headers that others wrote. A session's task reads a short one, and another thread a long one.
//! A look at lines of two octets takes 4 ms for each MiB, and addresses take 30 ms.

use bytes::Bytes;
use posthaste_mime_summary::has_long_header;
use posthaste_net::{Holder, elsewhere, elsewhere_for};

/// Reads the header of a message: at once if it is short, and else on another thread.
pub async fn reading_header<T: Send + 'static>(
    message: &Bytes,
    read: impl FnOnce(Bytes) -> T + Send + 'static,
) -> T {
    let own = message.clone();
    if has_long_header(message) { elsewhere(move || read(own)).await } else { read(own) }
}

/// Reads the header of a message that this holder sent, as [`reading_header`] does. Long headers
/// of one holder are read one at a time.
pub async fn reading_header_of<T: Send + 'static>(
    holder: Option<Holder>,
    message: &Bytes,
    read: impl FnOnce(Bytes) -> T + Send + 'static,
) -> T {
    let own = message.clone();
    match has_long_header(message) {
        true => elsewhere_for(holder, move || read(own)).await,
        false => read(own),
    }
}
