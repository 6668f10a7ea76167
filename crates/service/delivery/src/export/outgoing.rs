//! A message on its way to a file.

use bytes::Bytes;
use posthaste_mail_model::{Flag, Uid};

/// A message to be written.
pub(super) struct Outgoing {
    pub(super) uid: Uid,
    pub(super) flags: Vec<Flag>,
    pub(super) date: u32,
    pub(super) bytes: Bytes,
}
