//! The responses of URLAUTH and their grammar: RFC 4467 §9, RFC 5524 §4.
//!
//! ```text
//! genurlauth-data = "*" SP "GENURLAUTH" 1*(SP url-full)
//! urlfetch-data   = "*" SP "URLFETCH" 1*(SP url-full SP (nstring / 1*urldata-item))
//! ```

use bytes::Bytes;

use super::{BodyStructure, parse_fetch};
use crate::command::UrlFetchParam;
use crate::cursor::{Cursor, Parsed};
use crate::print::{body_structure, literal8_head, nstring, string};

/// A URL of a URLFETCH response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UrlFetched {
    /// The URL as it was requested.
    pub url: String,
    /// The data that it names.
    pub data: UrlData,
}

/// The data that a URL names, or its requested parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UrlData {
    /// The bytes as they are; `None` where the URL is void, however it was requested.
    Plain(Option<Bytes>),
    /// The items requested by name, in the order of the response; never empty (RFC 5524 §3).
    Items(Vec<UrlDataItem>),
}

/// One of them; `None` if it cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UrlDataItem {
    /// `BODY`: the bytes as they are.
    Body(Option<Bytes>),
    /// `BINARY`: the bytes with the transfer encoding undone.
    Binary(Option<Bytes>),
    /// `BODYPARTSTRUCTURE`
    Structure(Option<BodyStructure<'static>>),
}

/// `1*(SP url-full)`, without the first space.
pub(super) fn authorised(c: &mut Cursor<'_>) -> Parsed<Vec<String>> {
    let mut urls = vec![c.astring_text("a URL")?];
    while c.more()? {
        urls.push(c.astring_text("a URL")?);
    }
    Ok(urls)
}

/// The URLs with their data, without the first space.
pub(super) fn fetched(c: &mut Cursor<'_>) -> Parsed<Vec<UrlFetched>> {
    let mut all = Vec::new();
    loop {
        let url = c.astring_text("a URL")?;
        c.sp()?;
        if c.peek() != Some(b'(') {
            let data = UrlData::Plain(c.nstring_bytes("the bytes of a URL, or NIL")?);
            all.push(UrlFetched { url, data });
            if !c.more()? {
                return Ok(all);
            }
            continue;
        }
        let mut items = Vec::new();
        let mut more = true;
        while more && c.peek() == Some(b'(') {
            items.push(item(c)?);
            more = c.more()?;
        }
        all.push(UrlFetched { url, data: UrlData::Items(items) });
        if !more {
            return Ok(all);
        }
    }
}

fn item(c: &mut Cursor<'_>) -> Parsed<UrlDataItem> {
    c.expect(b'(', "(")?;
    let at = c.clone();
    let word = c.word();
    c.sp()?;
    let item = match word.as_bytes() {
        b"BODY" => UrlDataItem::Body(c.nstring_bytes("the bytes of a URL, or NIL")?),
        b"BINARY" => UrlDataItem::Binary(c.nstring_bytes("the bytes of a URL, or NIL")?),
        b"BODYPARTSTRUCTURE" if c.nil() => UrlDataItem::Structure(None),
        b"BODYPARTSTRUCTURE" => UrlDataItem::Structure(Some(parse_fetch::body(c, 0)?)),
        _ => return at.fail("BODY, BINARY or BODYPARTSTRUCTURE"),
    };
    c.expect(b')', ")")?;
    Ok(item)
}

/// Appends ` url data` for each.
pub(crate) fn print_fetched(out: &mut Vec<u8>, all: &[UrlFetched]) {
    for UrlFetched { url, data } in all {
        out.push(b' ');
        string(out, url.as_bytes());
        match data {
            UrlData::Plain(bytes) => {
                out.push(b' ');
                put_bytes(out, bytes.as_deref());
            }
            UrlData::Items(items) => items.iter().for_each(|item| print_item(out, item)),
        }
    }
}

fn print_item(out: &mut Vec<u8>, item: &UrlDataItem) {
    out.extend_from_slice(b" (");
    let param = match item {
        UrlDataItem::Body(_) => UrlFetchParam::Body,
        UrlDataItem::Binary(_) => UrlFetchParam::Binary,
        UrlDataItem::Structure(_) => UrlFetchParam::Structure,
    };
    out.extend_from_slice(param.name().as_bytes());
    out.push(b' ');
    match item {
        UrlDataItem::Structure(Some(structure)) => body_structure(out, structure),
        UrlDataItem::Body(bytes) | UrlDataItem::Binary(bytes) => put_bytes(out, bytes.as_deref()),
        UrlDataItem::Structure(None) => nstring(out, None),
    }
    out.push(b')');
}

/// RFC 5524 §4: literal8 where a string cannot hold the bytes.
fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) if memchr::memchr(0, bytes).is_some() => {
            literal8_head(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        bytes => nstring(out, bytes),
    }
}
