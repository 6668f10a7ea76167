//! RETR and TOP: a message on its way from the store to the client, piece by piece.
//!
//! A large message that is converted for its readers is held from its first piece to its last, and
//! from TOP to RETR ([`posthaste_delivery::HeldMessages`]). So a client pays for one conversion,
//! whatever others read meanwhile.

use std::ops::Range;

use bytes::Bytes;
use posthaste_delivery::LargeMessage;
use posthaste_mail_model::{BodyId, Uid};
use posthaste_net::NetError;
use posthaste_store::{Row, StoreError};

use super::{Driver, Inbox, Next};
use crate::dots::{DotWriter, Top};
use crate::options::{COPY_BYTES_MAX, PIECE_BYTES, TOP_PIECE_BYTES, WHOLE_BYTES_MAX};
use crate::print::number;
use crate::service::Pop3Service;
use crate::session::Refusal;

/// A message that is being sent.
struct Message {
    uid: Uid,
    body: BodyId,
    size: u64,
    /// Bytes read at a time.
    step: u64,
}

impl Driver {
    pub(super) async fn retrieve(&mut self, row: Row, lines: Option<u64>) -> Result<Next, NetError> {
        let (message, first) = match self.begin(&row, lines).await {
            Ok(Some(begun)) => begun,
            // A superseded message is a new one from now on, which the next session lists.
            Ok(None) | Err(StoreError::Superseded(_)) => return Ok(self.refuse(Refusal::Expunged)),
            Err(error) => return Ok(self.refuse(Refusal::of_store(&error))),
        };
        self.out.extend_from_slice(b"+OK ");
        number(&mut self.out, message.size);
        self.out.extend_from_slice(b" octets\r\n");
        self.send(&message, first, lines.map(Top::new)).await?;
        // Few clients request a message again that they have.
        if let (None, Some(inbox)) = (lines, &self.inbox) {
            inbox.holding.release();
        }
        Ok(Next::Command)
    }

    /// Reads the first piece: an unreadable message is refused before the answer begins. `None` if
    /// the message was expunged since the login.
    async fn begin(
        &mut self,
        row: &Row,
        top_lines: Option<u64>,
    ) -> Result<Option<(Message, Bytes)>, StoreError> {
        let (uid, mut size) = (row.uid(), u64::from(row.size()));
        let Some(Inbox { mailbox, .. }) = &self.inbox else { return Ok(None) };
        let Some(body) = mailbox.body_of(uid).await? else { return Ok(None) };
        if row.lacks_items() {
            // One conversion gives the size and the text.
            Box::pin(self.hold(body, size)).await;
            size = self.size_of(uid).await?.unwrap_or(size);
        }
        let step = match top_lines {
            Some(_) => TOP_PIECE_BYTES,
            None if size <= WHOLE_BYTES_MAX => WHOLE_BYTES_MAX,
            None => PIECE_BYTES,
        };
        let message = Message { uid, body, size, step };
        if size > WHOLE_BYTES_MAX {
            Box::pin(self.hold(body, size)).await;
        }
        let first = self.piece(&message, 0).await?;
        Ok(Some((message, first)))
    }

    /// Makes the size of a message.
    async fn size_of(&mut self, uid: Uid) -> Result<Option<u64>, StoreError> {
        let Some((number, _)) = self.session.maildrop().and_then(|maildrop| maildrop.view().row_of_uid(uid))
        else {
            return Ok(None);
        };
        self.make_sizes(Some(number.value())).await?;
        let row = self.session.maildrop().and_then(|maildrop| maildrop.view().row(number).copied());
        Ok(row.map(|row| u64::from(row.size())))
    }

    /// Holds a message that is converted, so that the next piece finds it converted.
    async fn hold(&self, body: BodyId, bytes: u64) {
        let Some(Inbox { owner, mailbox, holding, .. }) = &self.inbox else { return };
        let Pop3Service { held, reads, .. } = &*self.service;
        let large = LargeMessage { mailbox, body, bytes };
        held.hold(holding, *owner, reads, large).await;
    }

    /// The piece that starts at `at`.
    async fn piece(&self, message: &Message, at: u64) -> Result<Bytes, StoreError> {
        let Some(Inbox { mailbox, .. }) = &self.inbox else { return Err(StoreError::NoSuchName) };
        let Message { uid, body, size, step } = *message;
        let range: Range<u64> = at..size.min(at + step);
        let is_empty = range.is_empty();
        let piece = mailbox.read_body(uid, body, range).await?;
        if piece.is_empty() && !is_empty {
            return Err(StoreError::Body { uid, body, why: "it ends early".to_owned() });
        }
        Ok(piece)
    }

    async fn send(&mut self, message: &Message, first: Bytes, mut top: Option<Top>) -> Result<(), NetError> {
        let (mut dots, mut at, mut piece) = (DotWriter::new(), 0, first);
        loop {
            at += piece.len() as u64;
            let wanted = top.as_mut().map_or(piece.len(), |top| top.take(&piece));
            self.put(&mut dots, &piece[..wanted]).await?;
            if at >= message.size || top.as_ref().is_some_and(Top::is_done) {
                break;
            }
            drop(piece);
            piece = match self.piece(message, at).await {
                Ok(piece) => piece,
                // The answer has begun, so only the end of the connection can show that it failed.
                Err(error) => {
                    tracing::error!(uid = %message.uid, body = %message.body, %error, "reading a body failed while it was sent");
                    return Err(NetError::Closed);
                }
            };
        }
        self.out.extend_from_slice(dots.end());
        Ok(())
    }

    /// Sends a piece as lines. Long stretches in which nothing changes are not copied.
    async fn put(&mut self, dots: &mut DotWriter, mut piece: &[u8]) -> Result<(), NetError> {
        while !piece.is_empty() {
            let (clean, more) = dots.next(piece);
            let (stretch, rest) = piece.split_at(clean);
            if stretch.len() < COPY_BYTES_MAX {
                self.out.extend_from_slice(stretch);
            } else {
                self.put_uncopied(stretch).await?;
            }
            self.out.extend_from_slice(more);
            self.relieve().await?;
            piece = rest;
        }
        Ok(())
    }

    async fn put_uncopied(&mut self, stretch: &[u8]) -> Result<(), NetError> {
        let within = self.service.options.write_within;
        if !self.out.is_empty() {
            self.connection.write_more_within(&self.out, within).await?;
            self.out.clear();
        }
        self.connection.write_more_within(stretch, within).await?;
        self.rest(stretch.len()).await;
        Ok(())
    }
}
