//! The section `oauth`: logins by access tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_directory::{TokenCheck, normal_domain};
use posthaste_mail_model::Secret;
use posthaste_tokens::algorithm::Algorithm;
use posthaste_tokens::claims::RequiredClaims;
use posthaste_tokens::http::{Http, Url};
use posthaste_tokens::introspection::Introspection;
use posthaste_tokens::keys::{KeySource, KeyStore, READ_AGAIN_AFTER};
use posthaste_tokens::{Judge, SessionEnd, Tokens};
use serde::Deserialize;

use super::relay::password;
use super::values::{period, timeout};
use crate::failure::{Failure, Result};

/// Most that clocks may differ. With more, many tokens would stay valid for longer after their
/// end than before it.
const LEEWAY_MAX: Duration = Duration::from_secs(10 * 60);

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Oauth {
    pub jwks: String,
    pub algorithms: Vec<String>,
    pub introspection: String,
    pub client_id: String,
    pub client_secret_file: PathBuf,
    #[serde(deserialize_with = "period")]
    pub introspection_cache: Duration,
    pub issuer: String,
    pub audience: Vec<String>,
    pub scope: String,
    pub claim: String,
    pub domains: Vec<String>,
    #[serde(deserialize_with = "period")]
    pub leeway: Duration,
    pub session_ends: SessionEnds,
    pub ca: PathBuf,
    #[serde(deserialize_with = "timeout")]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionEnds {
    WithToken,
    Never,
}

impl Oauth {
    /// The verifier of tokens; `None` if the section names nothing.
    pub fn tokens(&self, domain: &str) -> Result<Option<Arc<dyn TokenCheck>>> {
        let usage = |key: &str, why: String| Failure::Usage(format!("`oauth.{key}`: {why}"));
        let judge = if !self.jwks.is_empty() {
            let source = self.key_source().map_err(|why| usage("jwks", why))?;
            let algorithms = self.allowed().map_err(Failure::Usage)?;
            Judge::Keys { keys: KeyStore::new(source, READ_AGAIN_AFTER), algorithms }
        } else if !self.introspection.is_empty() {
            let url: Url = self.introspection.parse().map_err(|why| usage("introspection", why))?;
            let secret = match self.client_id.is_empty() {
                true => Secret::new(String::new()),
                false => password("oauth.client_secret_file", &self.client_secret_file)?,
            };
            let http = self.http(&url).map_err(|why| usage("ca", why))?;
            let client = (self.client_id.as_str(), &secret);
            Judge::Server(Introspection::new(url, http, client, self.introspection_cache))
        } else {
            return Ok(None);
        };
        let wanted = RequiredClaims {
            issuer: self.issuer.clone(),
            audiences: self.audience.clone(),
            scope: self.scope.clone(),
            claim: self.claim.clone(),
            leeway: self.leeway,
        };
        let session_end = match self.session_ends {
            SessionEnds::WithToken => SessionEnd::WithToken,
            SessionEnds::Never => SessionEnd::Never,
        };
        let domains = self.normal_domains().map_err(Failure::Usage)?;
        let tokens = Tokens::new(judge, wanted, domain.to_owned(), session_end).for_domains(domains);
        Ok(Some(Arc::new(tokens)))
    }

    fn key_source(&self) -> std::result::Result<KeySource, String> {
        if !self.jwks.contains("://") {
            return Ok(KeySource::File(PathBuf::from(&self.jwks)));
        }
        let url: Url = self.jwks.parse()?;
        let http = self.http(&url)?;
        Ok(KeySource::Url(url, http))
    }

    fn http(&self, url: &Url) -> std::result::Result<Arc<Http>, String> {
        let authorities: Option<&Path> = url.is_secure().then_some(&self.ca);
        Http::new(authorities, self.timeout).map(Arc::new)
    }

    fn normal_domains(&self) -> std::result::Result<Vec<String>, String> {
        let normal = |domain: &String| {
            normal_domain(domain).map_err(|_| {
                format!("`oauth.domains`: {domain:?} is not a domain: write it as in \"example.org\"")
            })
        };
        self.domains.iter().map(normal).collect()
    }

    fn allowed(&self) -> std::result::Result<Vec<Algorithm>, String> {
        let algorithms = self.algorithms.iter().map(|name| {
            Algorithm::from_name(name).ok_or_else(|| {
                format!("`oauth.algorithms`: {name:?} is not \"RS256\", \"ES256\" or \"EdDSA\"")
            })
        });
        let algorithms: Vec<_> = algorithms.collect::<std::result::Result<_, _>>()?;
        if algorithms.is_empty() {
            return Err("`oauth.algorithms` must name at least one; remove the key for all of them".into());
        }
        Ok(algorithms)
    }

    /// Rules that the types do not express.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        self.allowed()?;
        self.normal_domains()?;
        for (key, text) in [("introspection", &self.introspection), ("jwks", &self.jwks)] {
            if text.contains("://") || (key == "introspection" && !text.is_empty()) {
                text.parse::<Url>().map_err(|why| format!("`oauth.{key}`: {why}"))?;
            }
        }
        if !self.jwks.is_empty() && !self.introspection.is_empty() {
            return Err(
                "`oauth.jwks` and `oauth.introspection` are two ways to check the same tokens: set one"
                    .into(),
            );
        }
        if !self.jwks.is_empty() && (self.issuer.is_empty() || self.audience.is_empty()) {
            // RFC 9068 §4: otherwise a token for any other service of the issuer would be
            // accepted.
            return Err(
                "`oauth.jwks` needs `oauth.issuer` and `oauth.audience`: otherwise a token for another \
                        service would be accepted here"
                    .into(),
            );
        }
        if self.client_id.is_empty() != self.client_secret_file.as_os_str().is_empty() {
            return Err(
                "`oauth.client_id` and `oauth.client_secret_file` go together: set both, or neither".into()
            );
        }
        if self.claim.is_empty() {
            return Err(
                "`oauth.claim` must name the claim that holds the account's name, such as \"email\"".into()
            );
        }
        // RFC 6749 §3.3
        if self.scope.contains(|c: char| !c.is_ascii_graphic() || c == '"' || c == '\\') {
            return Err("`oauth.scope` must be one scope, without blanks and quotes".into());
        }
        if self.leeway > LEEWAY_MAX {
            return Err("`oauth.leeway` must be at most 10 min".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn error(keys: &str) -> String {
        Config::parse(Path::new("posthaste.toml"), &format!("[oauth]\n{keys}")).unwrap_err().to_string()
    }

    #[test]
    fn impossible_settings_are_named_with_a_remedy() {
        assert!(error("introspection = \"http://id.example/x\"").contains("in clear"));
        assert!(error("introspection = \"id.example\"").contains("is not a URL"));
        assert!(error("jwks = \"https://\"").contains("is not a URL"));
        assert!(error("jwks = \"/k.json\"").contains("needs `oauth.issuer` and `oauth.audience`"));
        let both =
            "jwks = \"/k\"\nissuer = \"i\"\naudience = [\"a\"]\nintrospection = \"https://id.example/\"";
        assert!(error(both).contains("set one"));
        assert!(error("client_id = \"x\"").contains("client_secret_file"));
        assert!(error("algorithms = [\"none\"]").contains("not \"RS256\""));
        assert!(error("algorithms = []").contains("at least one"));
        assert!(error("claim = \"\"").contains("oauth.claim"));
        assert!(error("domains = [\"a b\"]").contains("`oauth.domains`: \"a b\""));
        assert!(error("scope = \"a b\"").contains("one scope"));
        assert!(error("leeway = \"1 h\"").contains("at most 10 min"));
        assert!(error("session_ends = \"later\"").contains("session_ends"));
    }

    #[test]
    fn nobody_checks_tokens_unless_it_is_set_up() {
        let config = Config::default();
        assert!(config.oauth.tokens("localhost").unwrap().is_none());
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        let introspection = "http://127.0.0.1:9/introspect".to_owned();
        let set = Oauth {
            introspection,
            client_id: "mail".into(),
            client_secret_file: secret.clone(),
            ..config.oauth
        };
        let missing = set.tokens("localhost").err().unwrap().to_string();
        assert!(missing.contains("`oauth.client_secret_file`"), "{missing}");
        std::fs::write(&secret, "s3cret\n").unwrap();
        assert!(set.tokens("localhost").unwrap().is_some());
    }
}
