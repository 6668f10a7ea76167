//! Responses that are printed as values, and the usual last words.

use std::borrow::Cow;

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::{Code, Response, Status, StatusKind, Untagged};
use posthaste_net::NetError;

use super::Wire;

impl Wire {
    fn print(&mut self, response: &Response) {
        let names = self.names;
        print::response(self.out(), response, names);
    }

    /// Prints `* data`.
    pub(crate) fn say(&mut self, data: Untagged) {
        self.print(&Response::Data(data));
    }

    /// Prints a status response.
    pub(crate) fn say_status(&mut self, status: Status) {
        print::status(self.out(), &status);
    }

    /// Prints `* OK [code] text`.
    pub(crate) fn say_code(&mut self, code: Code, text: impl Into<Cow<'static, str>>) {
        self.say_status(Status { tag: None, kind: StatusKind::Ok, code: Some(code), text: text.into() });
    }

    /// Prints a line of these pieces, without line ends in them.
    pub(crate) fn say_line(&mut self, pieces: &[&str]) {
        let out = self.out();
        pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
        out.extend_from_slice(b"\r\n");
    }

    /// Prints `* BYE [REFERRAL url] text`: RFC 2221 §3.
    pub(crate) fn say_referral(&mut self, url: String) {
        let (code, text) = (Some(Code::Referral(vec![url])), "Your mailboxes are on another server".into());
        self.say_status(Status { tag: None, kind: StatusKind::Bye, code, text });
    }

    /// Prints `* BYE text`.
    pub(crate) fn say_bye(&mut self, text: &'static str) {
        self.say_status(Status { tag: None, kind: StatusKind::Bye, code: None, text: text.into() });
    }

    /// Prints `* BYE [UNAVAILABLE] text`: RFC 5530 §3.
    pub(crate) fn say_unavailable(&mut self, text: &'static str) {
        let (code, text) = (Some(Code::Unavailable), text.into());
        self.say_status(Status { tag: None, kind: StatusKind::Bye, code, text });
    }

    /// Sends a continuation request: `+ text` (RFC 9051 §7.6).
    pub(crate) async fn request_continuation(&mut self, text: &str) -> Result<(), NetError> {
        self.say_continue(text);
        self.flush().await
    }

    /// Prints a continuation request.
    pub(crate) fn say_continue(&mut self, text: &str) {
        self.print(&Response::Continue(text.to_owned()));
    }
}
