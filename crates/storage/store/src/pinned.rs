//! The conversion of a message that a reader reads in pieces. It is kept until the reader ends.

use std::sync::Arc;

use posthaste_mail_model::BodyId;

use crate::context::Context;
use crate::served::{CachedPiece, Piece};

/// The converted message and the summary that is not stored, of one body. While a reader has this
/// value, its memory is not evicted, and is not counted as memory for conversions. They are made
/// when they are first read.
pub struct PinnedBody {
    context: Arc<Context>,
    pieces: Vec<(Piece, Arc<CachedPiece>)>,
}

impl PinnedBody {
    pub(crate) fn new(context: Arc<Context>, body: BodyId) -> Self {
        let pin = |piece| (piece, context.served.pin(piece));
        let pieces = [Piece::Whole(body), Piece::Summary(body)].map(pin).into();
        Self { context, pieces }
    }
}

impl Drop for PinnedBody {
    fn drop(&mut self) {
        for (piece, pinned) in self.pieces.drain(..) {
            self.context.served.unpin(piece, pinned);
        }
    }
}
