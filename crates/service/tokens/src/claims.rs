//! The claims of a token, and those that it must have to be accepted. The claims of a JWT (RFC 7519
//! §4.1) and the members of an answer about a token (RFC 7662 §2.2) have the same names.

use std::time::Duration;

use posthaste_directory::TokenError;
use serde_json::{Map, Value};

/// The claims of a token.
#[derive(Clone, PartialEq)]
pub struct Claims(pub Map<String, Value>);

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claims")
    }
}

/// What the claims of a token allow, at whatever time.
#[derive(Clone)]
pub struct Terms {
    /// The account that it names.
    name: Box<str>,
    /// The first second at which it is valid, unix time.
    from: u64,
    /// The first second at which it is not valid any more.
    until: Option<u64>,
    has_scope: bool,
}

/// The claims that a token must have to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredClaims {
    /// Its issuer; empty for every issuer whose keys are trusted.
    pub issuer: String,
    /// Its audience must be one of these. Empty for any audience.
    pub audiences: Vec<String>,
    /// The scope that it must allow; empty for nothing in particular.
    pub scope: String,
    /// The claim that names the account.
    pub claim: String,
    /// How much the clocks may differ.
    pub leeway: Duration,
}

impl Claims {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Whether there is a time at which it expires.
    pub(crate) fn expires(&self) -> bool {
        self.0.get("exp").is_some_and(|value| !value.is_null())
    }

    /// The reason why its bearer may not use it as an access token, if its claims show one.
    fn is_not_for_bearers(&self) -> Option<&'static str> {
        // OpenID Connect Core §2, §3.3.2.11: an ID token says which other tokens came with it.
        let is_id = ["at_hash", "c_hash", "s_hash"].iter().any(|claim| self.0.contains_key(*claim));
        // Keycloak names the kind of each token.
        let kind = self.text("typ").map(str::to_ascii_lowercase);
        let is_kind = |kinds: &[&str]| kind.as_deref().is_some_and(|kind| kinds.contains(&kind));
        if is_id || is_kind(&["id"]) {
            return Some("the token is an ID token and no access token");
        }
        // RFC 8417 §2.2, OpenID Connect Back-Channel Logout §2.4.
        if self.0.contains_key("events") || is_kind(&["logout"]) {
            return Some("the token is about a logout or another event and no access token");
        }
        if is_kind(&["refresh", "offline"]) {
            return Some("the token is a refresh token and no access token");
        }
        // RFC 7800 §3.1, RFC 8705 §3, RFC 9449 §6: the client must prove that it has a key, and
        // cannot do so here.
        self.0.contains_key("cnf").then_some("the token is bound to a key of its client")
    }

    /// A `NumericDate` (RFC 7519 §2), which may have a fraction.
    fn seconds(&self, name: &str) -> Result<Option<u64>, TokenError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                // Beyond the year 9999 it is no time.
                Some(seconds) if (0.0..253_402_300_800.0).contains(&seconds) => Ok(Some(seconds as u64)),
                _ => Err(TokenError::Invalid("a time in the token is not a number of seconds")),
            },
        }
    }

    /// The words of a claim that is one string with blanks, or a list of strings.
    fn words(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// RFC 7519 §4.1.3: one string, or a list.
    fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(text)) => text == audience,
            Some(Value::Array(list)) => list.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        }
    }
}

impl Terms {
    /// Octets of the account's name.
    pub(crate) fn name_len(&self) -> usize {
        self.name.len()
    }

    /// The account that the token names, and when it expires.
    pub fn at(self, now: u64) -> Result<(String, Option<u64>), TokenError> {
        if now < self.from {
            return Err(TokenError::Invalid("the token is not valid yet"));
        }
        if self.until.is_some_and(|until| now >= until) {
            return Err(TokenError::Expired);
        }
        if !self.has_scope {
            return Err(TokenError::Scope);
        }
        Ok((self.name.into_string(), self.until))
    }
}

impl RequiredClaims {
    /// The terms of a token. Its time is judged later: a token that was never valid must not be
    /// reported as expired.
    pub fn judge(&self, claims: &Claims) -> Result<Terms, TokenError> {
        if !self.issuer.is_empty() && claims.text("iss") != Some(&self.issuer) {
            return Err(TokenError::Invalid("the token is of another issuer"));
        }
        if let Some(why) = claims.is_not_for_bearers() {
            return Err(TokenError::Invalid(why));
        }
        if !self.audiences.is_empty() && !self.audiences.iter().any(|one| claims.is_for(one)) {
            return Err(TokenError::Invalid("the token is for another audience"));
        }
        let name = claims.text(&self.claim).filter(|name| !name.is_empty());
        let name = name.ok_or(TokenError::Invalid("the token does not name an account"))?;
        // OpenID Connect Core §5.1: until it is verified, anybody may have claimed the address.
        if self.claim == "email" && claims.0.get("email_verified").is_some_and(is_false) {
            return Err(TokenError::Invalid("the address in the token is not verified"));
        }
        let leeway = self.leeway.as_secs();
        let from = claims.seconds("nbf")?.unwrap_or(0).saturating_sub(leeway);
        let until = claims.seconds("exp")?.map(|expires| expires + leeway);
        // RFC 9068 §2.2.3; `scp` is what some servers call it.
        let has_scope =
            ["scope", "scp"].iter().any(|claim| claims.words(claim).contains(&self.scope.as_str()));
        let has_scope = self.scope.is_empty() || has_scope;
        // Nobody logs in without the scope: the name is not needed.
        let name = if has_scope { name } else { "" };
        Ok(Terms { name: name.into(), from, until, has_scope })
    }
}

/// Some servers write booleans as text.
fn is_false(value: &Value) -> bool {
    matches!(value, Value::Bool(false)) || value.as_str() == Some("false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(json: &str, wanted: &RequiredClaims) -> Result<(String, Option<u64>), TokenError> {
        wanted.judge(&Claims(serde_json::from_str(json).unwrap()))?.at(1000)
    }

    #[test]
    fn each_claim_is_judged() {
        let wanted = RequiredClaims {
            issuer: "https://id.example".into(),
            audiences: vec!["mail".into(), "imap".into()],
            scope: "mail.read".into(),
            claim: "email".into(),
            leeway: Duration::from_secs(60),
        };
        let good = r#"{"iss":"https://id.example","aud":["x","imap"],"scope":"a mail.read","email":"ana@example.org","exp":1000.5,"nbf":1060}"#;
        assert_eq!(judged(good, &wanted), Ok(("ana@example.org".into(), Some(1060))));
        let changed = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            judged(&good.replace(from, to), &wanted)
        };
        assert!(changed("[\"x\",\"imap\"]", "\"mail\"").is_ok());
        assert!(changed("\"scope\":\"a mail.read\"", "\"scp\":[\"mail.read\"]").is_ok());
        assert!(changed("\"email\":", "\"email_verified\":true,\"email\":").is_ok());
        assert!(changed("\"email\":", "\"typ\":\"Bearer\",\"email\":").is_ok());
        assert_eq!(changed("1000.5", "940"), Err(TokenError::Expired));
        assert!(changed("1000.5", "941").is_ok());
        assert_eq!(changed("a mail.read", "a mail.read2"), Err(TokenError::Scope));
        for (from, to, why) in [
            ("https://id.example", "https://id.example/", "another issuer"),
            ("\"iss\"", "\"x\"", "another issuer"),
            ("[\"x\",\"imap\"]", "[\"x\"]", "another audience"),
            ("\"aud\"", "\"x\"", "another audience"),
            ("[\"x\",\"imap\"]", "\"mail imap\"", "another audience"),
            ("1060", "1061", "not valid yet"),
            ("1060", "\"1060\"", "not a number"),
            ("1000.5", "-1", "not a number"),
            ("1000.5", "1e300", "not a number"),
            ("ana@example.org", "", "does not name"),
            ("\"ana@example.org\"", "7", "does not name"),
            ("\"email\":", "\"email_verified\":false,\"email\":", "not verified"),
            ("\"email\":", "\"email_verified\":\"false\",\"email\":", "not verified"),
            ("\"email\":", "\"at_hash\":\"x\",\"email\":", "an ID token"),
            ("\"email\":", "\"typ\":\"ID\",\"email\":", "an ID token"),
            ("\"email\":", "\"typ\":\"Refresh\",\"email\":", "a refresh token"),
            ("\"email\":", "\"typ\":\"Offline\",\"email\":", "a refresh token"),
            ("\"email\":", "\"typ\":\"Logout\",\"email\":", "about a logout"),
            ("\"email\":", "\"events\":{},\"email\":", "about a logout"),
            ("\"email\":", "\"cnf\":{\"jkt\":\"x\"},\"email\":", "bound to a key"),
        ] {
            match changed(from, to) {
                Err(TokenError::Invalid(said)) => assert!(said.contains(why), "{to}: {said}"),
                other => panic!("{to}: {other:?}"),
            }
        }
        // An expired token of somebody else is refused for its owner, not for its age.
        let old = good.replace("1000.5", "1").replace("imap", "other");
        assert!(matches!(judged(&old, &wanted), Err(TokenError::Invalid(_))));
    }
}
