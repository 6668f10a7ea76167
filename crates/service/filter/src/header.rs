//! Headers of messages that scripts, forwards and groups send on. The task of a delivery reads
//! short ones, and another thread reads long ones.

use bytes::Bytes;
use posthaste_mime_summary::has_header_over;
use posthaste_net::elsewhere;

/// Octets of a header that the task of a delivery reads itself. One poll may serve 16 accounts,
/// or 8 redirects of a script, with three headers each. All addresses of so many octets take
/// 0.1 ms.
const READ_HERE_MAX: usize = 4 << 10;

/// Does work that reads the headers of these messages: at once if all of them are short, and else
/// on another thread.
pub(crate) async fn reading<T: Send + 'static>(
    messages: &[&Bytes],
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let is_long = messages.iter().any(|message| has_header_over(message, READ_HERE_MAX));
    if is_long { elsewhere(work).await } else { work() }
}
