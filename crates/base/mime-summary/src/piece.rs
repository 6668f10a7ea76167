//! Text and bytes that come in pieces.

/// Whether more of a text follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More may follow.
    Next,
    /// Nothing follows.
    Last,
}
