//! GENURLAUTH, RESETKEY and URLFETCH: RFC 4467 §9, RFC 5524 §4.

use super::parse_words::mailbox;
use super::{CommandBody, UrlFetchItem, UrlFetchParam};
use crate::NameEncoding;
use crate::cursor::{Cursor, Parsed};
use crate::limits::LIST_ITEMS_MAX;

/// `"GENURLAUTH" 1*(SP url-rump SP mechanism)`
pub(super) fn generate(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mut urls = Vec::new();
    c.sp()?;
    loop {
        let url = c.astring_text("a URL that ends in ;URLAUTH= and the access")?;
        c.sp()?;
        urls.push((url, mechanism(c)?));
        if !c.more()? {
            return Ok(CommandBody::GenUrlAuth(urls));
        }
        if urls.len() == LIST_ITEMS_MAX {
            return c.limit("Too many URLs");
        }
    }
}

/// `"RESETKEY" [SP mailbox *(SP mechanism)]`
pub(super) fn reset(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    let mut mechanisms = Vec::new();
    if !c.more()? {
        return Ok(CommandBody::ResetKey { mailbox: None, mechanisms });
    }
    let mailbox = Some(mailbox(c, names)?);
    while c.more()? {
        if mechanisms.len() == LIST_ITEMS_MAX {
            return c.limit("Too many mechanisms");
        }
        mechanisms.push(mechanism(c)?);
    }
    Ok(CommandBody::ResetKey { mailbox, mechanisms })
}

/// `"URLFETCH" 1*(SP (url-full / "(" url-full *(SP url-fetch-param) ")"))`: RFC 5524 §4
pub(super) fn fetch(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mut urls = Vec::new();
    c.sp()?;
    loop {
        urls.push(fetch_item(c)?);
        if !c.more()? {
            return Ok(CommandBody::UrlFetch(urls));
        }
        if urls.len() == LIST_ITEMS_MAX {
            return c.limit("Too many URLs");
        }
    }
}

fn fetch_item(c: &mut Cursor<'_>) -> Parsed<UrlFetchItem> {
    if !c.eat(b'(') {
        return Ok(UrlFetchItem { url: c.astring_text("a URL")?, params: None });
    }
    let url = c.astring_text("a URL")?;
    let mut params = Vec::new();
    while !c.eat(b')') {
        c.expect(b' ', "a space or )")?;
        let at = c.clone();
        let param = match c.word().as_bytes() {
            b"BODY" => UrlFetchParam::Body,
            b"BINARY" => UrlFetchParam::Binary,
            b"BODYPARTSTRUCTURE" => UrlFetchParam::Structure,
            _ => return at.fail("BODY, BINARY or BODYPARTSTRUCTURE"),
        };
        // RFC 5524 §3: the bytes come in one form.
        let is_second = |known: &UrlFetchParam| {
            *known == param || (*known != UrlFetchParam::Structure && param != UrlFetchParam::Structure)
        };
        if params.iter().any(is_second) {
            return at.fail("each of them once, and BODY or BINARY");
        }
        params.push(param);
    }
    Ok(UrlFetchItem { url, params: Some(params) })
}

/// `"INTERNAL" / 1*(ALPHA / DIGIT / "-" / ".")`, in capitals.
fn mechanism(c: &mut Cursor<'_>) -> Parsed<String> {
    let at = c.clone();
    let name = c.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    if name.is_empty() {
        at.fail("a mechanism such as INTERNAL")
    } else {
        Ok(c.text(name)?.to_ascii_uppercase())
    }
}
