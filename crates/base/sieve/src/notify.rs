//! Notification URIs: `mailto`. RFC 5436, RFC 6068.

/// The parts of a mailto URI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailto {
    /// Addresses of `To`.
    pub to: Vec<String>,
    /// Addresses of `Cc`, which get it as well. The field is among the others.
    pub copies: Vec<String>,
    /// Further fields, in order. RFC 5436 §2.3: From, Date, Message-ID, Received and other
    /// fields that only the server writes are not among them. Nor are those that name another
    /// sender (RFC 6068 §4, unsafe fields).
    pub fields: Vec<(String, String)>,
    /// The text.
    pub body: Option<String>,
}

/// Recipients of one notification: more would make a mailing list of it.
const RECIPIENTS_MAX: usize = 8;

/// Parses a URI, or says why it is not one.
pub(crate) fn mailto(uri: &str) -> Result<Mailto, String> {
    let rest = match uri.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("mailto:") => rest,
        _ => {
            return Err(format!(
                "\"{uri}\" is not a method of notification: write \"mailto:name@example.org\""
            ));
        }
    };
    let (to, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut made = Mailto::default();
    addresses(to, &mut made.to)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        match name.to_ascii_lowercase().as_str() {
            "to" => addresses_of(&value, &mut made.to)?,
            "body" => made.body = Some(value),
            "from" | "date" | "message-id" | "received" | "return-path" | "auto-submitted" | "sender"
            | "resent-from" | "resent-sender" | "bcc" => {}
            "cc" => {
                let mut copies = Vec::new();
                addresses_of(&value, &mut copies)?;
                made.fields.push((name, copies.join(", ")));
                made.copies.extend(copies);
                if made.copies.len() > RECIPIENTS_MAX {
                    return Err(too_many());
                }
            }
            _ if crate::message::is_field_name(&name) => {
                made.fields.push((name, value.replace(['\r', '\n'], " ")))
            }
            _ => return Err(format!("\"{name}\" in the mailto URI is not the name of a header field")),
        }
    }
    match made.to.len() + made.copies.len() {
        _ if made.to.is_empty() => {
            Err("the mailto URI has no address: write \"mailto:name@example.org\"".into())
        }
        ..=RECIPIENTS_MAX => Ok(made),
        _ => Err(too_many()),
    }
}

fn too_many() -> String {
    format!("the mailto URI has more than {RECIPIENTS_MAX} addresses: use fewer")
}

fn addresses(list: &str, into: &mut Vec<String>) -> Result<(), String> {
    // Commas between addresses stay as they are; within one they are percent-encoded.
    for address in list.split(',').filter(|address| !address.is_empty()) {
        one(&decoded(address)?, into)?;
    }
    Ok(())
}

fn addresses_of(value: &str, into: &mut Vec<String>) -> Result<(), String> {
    value.split(',').filter(|address| !address.trim().is_empty()).try_for_each(|address| one(address, into))
}

fn one(address: &str, into: &mut Vec<String>) -> Result<(), String> {
    match crate::address::single(address) {
        Some(single) => into.push(single),
        None => return Err(format!("\"{address}\" in the mailto URI is not an address")),
    }
    if into.len() > RECIPIENTS_MAX { Err(too_many()) } else { Ok(()) }
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| (b as char).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err("a percent sign in a URI must have two hexadecimal digits after it".into()),
        }
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err("the URI's bytes are no UTF-8".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailto_uris() {
        let made =
            mailto("mailto:a@b.c,d%2De@f?subject=Hi%20you&body=x&cc=g@h&From=z@z&x-y=1%0d%0aBcc:q").unwrap();
        let senders = mailto("mailto:a@b?Sender=z@z&Resent-From=z@z&resent-sender=z@z").unwrap();
        assert!(senders.fields.is_empty(), "{senders:?}");
        assert_eq!(made.to, ["a@b.c", "d-e@f"]);
        assert_eq!(made.copies, ["g@h"]);
        let expected = [("subject", "Hi you"), ("cc", "g@h"), ("x-y", "1  Bcc:q")];
        assert_eq!(made.fields, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!(made.body.as_deref(), Some("x"));
        for bad in ["xmpp:a@b", "mailto:", "mailto:a", "mailto:a@b?c%0ad=e", "mailto:%4", "mailto:%ff@a"] {
            assert!(mailto(bad).is_err(), "{bad}");
        }
        let eight = ["a@b"; 8].join(",");
        assert!(mailto(&format!("mailto:{eight}")).is_ok());
        for more in [
            format!("mailto:{eight},a@b"),
            format!("mailto:{eight}?cc=c@d"),
            format!("mailto:a@b?cc={eight}"),
        ] {
            assert!(mailto(&more).is_err(), "{more}");
        }
    }
}
