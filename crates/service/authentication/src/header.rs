//! Headers that others wrote. A session's task reads a short one, and another thread a long one.
//! A look at lines of two octets takes 4 ms for each MiB, and addresses take 30 ms.

use bytes::Bytes;
use posthaste_mime_summary::has_long_header;
use posthaste_net::{COPIED_HERE_MAX, Holder, elsewhere_for};

/// Reads the header of a message: at once if it is short, and else on another thread. Long
/// headers of one holder are read one at a time. `None`: see [`elsewhere_for`].
pub async fn reading_header<T: Send + 'static>(
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

/// Changes the header of a message, which may copy the message. If one of them is long, another
/// thread does it: one at a time for each holder, as in [`reading_header`].
pub async fn changing_header<T: Send + 'static>(
    holder: Option<Holder>,
    message: Bytes,
    change: impl FnOnce(Bytes) -> T + Send + 'static,
) -> T {
    let is_long = message.len() > COPIED_HERE_MAX || has_long_header(&message);
    if is_long { elsewhere_for(holder, move || change(message)).await } else { change(message) }
}
