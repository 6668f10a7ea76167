//! OAUTHBEARER (RFC 7628) and XOAUTH2: a bearer token (RFC 6750) in place of a password.
//!
//! ```text
//! OAUTHBEARER  gs2-header kvsep *(key "=" value kvsep) kvsep      gs2-header = ("n" / "y") "," ["a=" saslname] ","
//! XOAUTH2      "user=" name kvsep "auth=Bearer " token kvsep kvsep
//! kvsep        %x01
//! ```
//!
//! The values that count are `auth` and the name. `host` and `port` are for schemes that sign them.

use posthaste_mail_model::Secret;
use serde::Serialize;

use crate::login_error::LoginFailure;
use crate::sasl::scram::unescape;
use crate::token::TokenCheck;

const SEPARATOR: char = '\x01';

/// The mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BearerMechanism {
    OauthBearer,
    Xoauth2,
}

/// The client's message.
pub(super) struct BearerMessage {
    /// The requested account; empty for the one that the token names.
    pub name: String,
    /// `None` for one that only wants to know where to get one: RFC 7628 §4.3.
    pub token: Option<Secret<String>>,
}

impl BearerMessage {
    pub fn parse(mechanism: BearerMechanism, response: &[u8]) -> Result<Self, LoginFailure> {
        let text = std::str::from_utf8(response)
            .map_err(|_| LoginFailure::Malformed("a response with a token is UTF-8"))?;
        let shape = match mechanism {
            BearerMechanism::OauthBearer => "OAUTHBEARER is n,a=NAME,^Aauth=Bearer TOKEN^A^A",
            BearerMechanism::Xoauth2 => "XOAUTH2 is user=NAME^Aauth=Bearer TOKEN^A^A",
        };
        let message = match mechanism {
            BearerMechanism::OauthBearer => oauth_bearer(text),
            BearerMechanism::Xoauth2 => xoauth2(text),
        };
        message.ok_or(LoginFailure::Malformed(shape))
    }
}

fn oauth_bearer(text: &str) -> Option<BearerMessage> {
    let (header, pairs) = text.split_once(SEPARATOR)?;
    let (flag, rest) = header.split_once(',')?;
    let name = rest.strip_suffix(',')?;
    // RFC 7628 §3.1: a bearer token binds to no channel.
    if !matches!(flag, "n" | "y") || name.contains(',') {
        return None;
    }
    let name = match name {
        "" => String::new(),
        name => unescape(name.strip_prefix("a=")?).ok().filter(|name| !name.is_empty())?,
    };
    let mut token = None;
    for (key, value) in Pairs::of(pairs)? {
        if key.eq_ignore_ascii_case("auth") && token.replace(bearer(value)?).is_some() {
            return None;
        }
    }
    Some(BearerMessage { name, token: token.flatten() })
}

fn xoauth2(text: &str) -> Option<BearerMessage> {
    let (mut name, mut token) = (None, None);
    for (key, value) in Pairs::of(text)? {
        let again = match key {
            "user" => name.replace(value).is_some(),
            "auth" => token.replace(bearer(value)?).is_some(),
            _ => false,
        };
        if again {
            return None;
        }
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(BearerMessage { name: name.to_owned(), token: token.flatten() })
}

/// `*(key "=" value kvsep) kvsep`, key and value by key and value.
struct Pairs<'a>(&'a str);

impl<'a> Pairs<'a> {
    /// `None` if one of them is malformed.
    fn of(text: &'a str) -> Option<Self> {
        let pairs = text.strip_suffix(SEPARATOR)?;
        let (pairs, ended) = (pairs.strip_suffix(SEPARATOR).unwrap_or(pairs), pairs.ends_with(SEPARATOR));
        if pairs.is_empty() {
            return (!ended).then_some(Self(""));
        }
        let is_value = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n');
        let is_pair = |pair: &str| {
            pair.split_once('=').is_some_and(|(key, value)| {
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphabetic()) && value.chars().all(is_value)
            })
        };
        (ended && pairs.split(SEPARATOR).all(is_pair)).then_some(Self(pairs))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (pair, rest) = self.0.split_once(SEPARATOR).unwrap_or((self.0, ""));
        self.0 = rest;
        pair.split_once('=')
    }
}

/// `Bearer b64token` (RFC 6750 §2.1); `Some(None)` for an empty value or an empty token. `None`
/// for another scheme, or what is no token.
fn bearer(value: &str) -> Option<Option<Secret<String>>> {
    let value = value.trim();
    if value.is_empty() {
        return Some(None);
    }
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    let token = token.trim_start();
    let is_token = token
        .trim_end_matches('=')
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/'));
    if !scheme.eq_ignore_ascii_case("Bearer") || !is_token {
        return None;
    }
    Some((!token.is_empty()).then(|| Secret::new(token.to_owned())))
}

/// RFC 7628 §3.2.2.
#[derive(Serialize)]
struct Refusal<'a> {
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schemes: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(rename = "openid-configuration", skip_serializing_if = "Option::is_none")]
    discovery: Option<&'a str>,
}

/// The data that a client's program gets with a refusal; `None` if the token was not looked at.
pub(super) fn challenge(
    mechanism: BearerMechanism,
    why: &LoginFailure,
    tokens: Option<&dyn TokenCheck>,
) -> Option<Vec<u8>> {
    let status = match why {
        LoginFailure::Scope => "insufficient_scope",
        LoginFailure::Token(_) | LoginFailure::Expired => "invalid_token",
        LoginFailure::AuthorizationId | LoginFailure::Disabled => "invalid_token",
        _ => return None,
    };
    let scope = tokens.map(TokenCheck::scope).filter(|scope| !scope.is_empty());
    let refusal = match mechanism {
        BearerMechanism::OauthBearer => {
            Refusal { status, schemes: None, scope, discovery: tokens.and_then(TokenCheck::discovery) }
        }
        BearerMechanism::Xoauth2 => {
            Refusal { status: "400", schemes: Some("Bearer"), scope, discovery: None }
        }
    };
    serde_json::to_vec(&refusal).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mechanism: BearerMechanism, text: &str) -> Option<(String, Option<String>)> {
        let message = BearerMessage::parse(mechanism, text.as_bytes()).ok()?;
        Some((message.name, message.token.map(|token| token.expose().clone())))
    }

    #[test]
    fn messages_after_the_examples_of_rfc_7628_and_google() {
        let own = |mechanism, text: &str, name: &str, token: Option<&str>| {
            assert_eq!(read(mechanism, text), Some((name.to_owned(), token.map(str::to_owned))), "{text:?}");
        };
        // §4.1
        let example = "n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
                       auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        own(
            BearerMechanism::OauthBearer,
            example,
            "user@example.com",
            Some("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="),
        );
        own(
            BearerMechanism::OauthBearer,
            "n,,\x01auth=bearer  a.b-c_d~e+f/g\x01\x01",
            "",
            Some("a.b-c_d~e+f/g"),
        );
        own(
            BearerMechanism::OauthBearer,
            "y,a=a=2Cb=3D@x,\x01auth=Bearer t\x01mthd=POST\x01\x01",
            "a,b=@x",
            Some("t"),
        );
        // §4.3: where to get a token?
        own(BearerMechanism::OauthBearer, "n,a=user@example.com,\x01auth=\x01\x01", "user@example.com", None);
        own(BearerMechanism::OauthBearer, "n,a=user@example.com,\x01\x01", "user@example.com", None);
        let google =
            "user=someuser@example.com\x01auth=Bearer ya29.vF9dft4qmTc2Nvb3RlckBhdHRhdmlzdGEuY29tCg\x01\x01";
        own(
            BearerMechanism::Xoauth2,
            google,
            "someuser@example.com",
            Some("ya29.vF9dft4qmTc2Nvb3RlckBhdHRhdmlzdGEuY29tCg"),
        );
        own(BearerMechanism::Xoauth2, "user=ana\x01\x01", "ana", None);
    }

    #[test]
    fn what_is_no_message() {
        for text in [
            "",
            "\x01",
            "n,,",
            "n,,\x01",
            "n,,\x01auth=Bearer t",
            "n,,\x01auth=Bearer t\x01",
            "n,,\x01auth=Bearer t\x01\x01\x01",
            "n,,\x01auth=Bearer t\x01\x01auth=Bearer u\x01\x01",
            "n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
            "n,,\x01auth=Basic t\x01\x01",
            "n,,\x01auth=Bearer t u\x01\x01",
            "n,,\x01auth=Bearer t=u\x01\x01",
            "n,,\x01a1=x\x01auth=Bearer t\x01\x01",
            "n,,\x01=x\x01auth=Bearer t\x01\x01",
            "n,,\x01auth=Bearer t\x01x=\0\x01\x01",
            "p=tls-exporter,,\x01auth=Bearer t\x01\x01",
            "n,b=ana,\x01auth=Bearer t\x01\x01",
            "n,a=,\x01auth=Bearer t\x01\x01",
            "n,a=a=2,\x01auth=Bearer t\x01\x01",
            "n,a=a,b,\x01auth=Bearer t\x01\x01",
        ] {
            assert_eq!(read(BearerMechanism::OauthBearer, text), None, "{text:?}");
        }
        for text in [
            "",
            "\x01",
            "auth=Bearer t\x01\x01",
            "user=\x01auth=Bearer t\x01\x01",
            "user=a\x01user=b\x01auth=Bearer t\x01\x01",
            "user=a\x01auth=Bearer t\x01auth=Bearer t\x01\x01",
            "user=a\x01auth=Bearer t\x01",
        ] {
            assert_eq!(read(BearerMechanism::Xoauth2, text), None, "{text:?}");
        }
    }
}
