//! Responses of a server as typed values: RFC 9051 §7, for the server that prints them and the
//! client that reads them.

mod code;
mod data;
mod fetch;
mod flag;
mod parse;
mod parse_data;
mod parse_fetch;
mod parse_words;
mod structure;
mod urls;

use std::borrow::Cow;

pub use code::Code;
pub use data::{
    Esearch, ListAttribute, ListData, Namespace, Namespaces, QuotaResource, StatusValue, ThreadNode,
    Untagged, Update, UpdateKind,
};
pub use fetch::FetchValue;
pub use flag::ResponseFlag;
pub use parse::parse_response;
pub use structure::{
    Address, BasicPart, BodyStructure, Disposition, Envelope, MultiPart, NString, Param, PartKind, PartTail,
    SinglePart,
};
pub(crate) use urls::print_fetched;
pub use urls::{UrlData, UrlDataItem, UrlFetched};

use crate::Tag;

/// One response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// `+ text`: RFC 9051 §7.6. For AUTHENTICATE the text is base64.
    Continue(String),
    /// `OK`, `NO`, `BAD`, `BYE`, `PREAUTH`.
    Status(Status),
    /// `* data`.
    Data(Untagged),
}

/// A status response: RFC 9051 §7.1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The tag of the command that it ends; `None` is `*`.
    pub tag: Option<Tag>,
    /// The kind of the status.
    pub kind: StatusKind,
    /// `[…]`
    pub code: Option<Code>,
    /// The text for a person. No CR, no LF.
    pub text: Cow<'static, str>,
}

/// The kind of a status: the end of a command, or an unsolicited status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StatusKind {
    /// `OK`
    Ok,
    /// `NO`
    No,
    /// `BAD`
    Bad,
    /// `BYE`: only untagged.
    Bye,
    /// `PREAUTH`: only as greeting.
    PreAuth,
}

impl StatusKind {
    /// The response's name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::No => "NO",
            Self::Bad => "BAD",
            Self::Bye => "BYE",
            Self::PreAuth => "PREAUTH",
        }
    }
}
