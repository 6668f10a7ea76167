//! A domain's requirements on TLS to its hosts: the TXT record and the policy (RFC 8461 §3.1,
//! §3.2).

use serde::{Deserialize, Serialize};

/// Octets of a policy that are read: RFC 8461 §3.3 advises some 64 kilobytes.
pub(crate) const POLICY_LEN_MAX: usize = 64 * 1024;
/// Seconds that a policy may be kept: about one year (RFC 8461 §3.2).
pub(super) const MAX_AGE_MAX: i64 = 31_557_600;
/// Patterns that are kept of a policy. A domain has a handful of hosts.
pub(super) const PATTERNS_MAX: usize = 100;
/// Octets of these patterns. RFC 8461 §3.2 sets no bound: this one is ours. 100 hosts with names
/// of 80 octets fit.
pub(super) const PATTERNS_LEN_MAX: usize = 8 * 1024;

/// The treatment of a host that does not match the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// The host gets no mail.
    Enforce,
    /// The host is reported, and gets mail.
    Testing,
    /// Nothing.
    None,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    pub mode: Mode,
    /// Hosts that may take the domain's mail, in lower case.
    pub mx: Vec<String>,
    /// Seconds that it may be kept.
    pub max_age: i64,
}

/// The reason why a text is not a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error("the policy does not consist of `key: value` lines")]
    Lines,
    #[error("its first key is not `version: STSv1`")]
    Version,
    #[error("its mode is not enforce, testing or none")]
    Mode,
    #[error("its max_age is not a number of seconds up to one year")]
    MaxAge,
    #[error("it names no host, or its host name is not valid")]
    Mx,
    #[error("its host names have over 8 KiB, more than this server keeps")]
    TooLong,
}

impl Policy {
    /// Reads a policy. Keys that are not known are skipped; of a key that is there twice the
    /// first counts, except for `mx`.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let (mut version, mut mode, mut max_age, mut mx) = (None, None, None, Vec::new());
        // RFC 8461 §3.2: lines end in CR LF or in LF.
        for line in text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)) {
            if line.trim().is_empty() {
                continue;
            }
            let (key, value) = line.split_once(':').ok_or(PolicyError::Lines)?;
            let value = value.trim_matches([' ', '\t']);
            match key.trim_end_matches([' ', '\t']) {
                "version" => _ = version.get_or_insert(value),
                "mode" => _ = mode.get_or_insert(value),
                "max_age" => _ = max_age.get_or_insert(value),
                "mx" if mx.len() < PATTERNS_MAX => mx.push(pattern(value).ok_or(PolicyError::Mx)?),
                _ => {}
            }
        }
        if version != Some("STSv1") {
            return Err(PolicyError::Version);
        }
        let mode = match mode {
            Some("enforce") => Mode::Enforce,
            Some("testing") => Mode::Testing,
            Some("none") => Mode::None,
            _ => return Err(PolicyError::Mode),
        };
        // At most ten digits.
        let is_number =
            |text: &&str| (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let max_age = max_age.filter(is_number).and_then(|text| text.parse().ok());
        let max_age = max_age.filter(|age| *age <= MAX_AGE_MAX).ok_or(PolicyError::MaxAge)?;
        if mx.is_empty() && mode != Mode::None {
            return Err(PolicyError::Mx);
        }
        let policy = Self { mode, mx, max_age };
        if policy.patterns_len() > PATTERNS_LEN_MAX {
            return Err(PolicyError::TooLong);
        }
        Ok(policy)
    }

    /// Octets of its patterns.
    pub(super) fn patterns_len(&self) -> usize {
        self.mx.iter().map(String::len).sum()
    }

    /// Whether a host may take the domain's mail (RFC 8461 §4.1).
    pub fn allows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.mx.iter().any(|pattern| match pattern.strip_prefix("*.") {
            // A star matches one label, the leftmost.
            Some(parent) => {
                host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == parent)
            }
            None => host == *pattern,
        })
    }

    /// The policy's lines without their ends, as reports quote them (RFC 8460 §4.4).
    pub fn lines(&self) -> Vec<String> {
        let mode = match self.mode {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        };
        let mut lines = vec!["version: STSv1".to_owned(), format!("mode: {mode}")];
        lines.extend(self.mx.iter().map(|mx| format!("mx: {mx}")));
        lines.push(format!("max_age: {}", self.max_age));
        lines
    }
}

/// A host's name, or one with a star for its first label, in lower case.
fn pattern(text: &str) -> Option<String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    (text.len() <= 253 && name.split('.').all(is_label)).then(|| text.to_ascii_lowercase())
}

/// The identifier of a domain's policy, from the texts at `_mta-sts.DOMAIN` (RFC 8461 §3.1).
/// `None` if the domain has no policy: there must be exactly one text that begins with the
/// version.
pub(crate) fn policy_id<'t>(texts: impl Iterator<Item = &'t str>) -> Option<String> {
    let mut ours = texts.filter(|text| {
        text.strip_prefix("v=STSv1").is_some_and(|rest| rest.trim_start_matches([' ', '\t']).starts_with(';'))
    });
    let only = ours.next()?;
    if ours.next().is_some() {
        return None;
    }
    let fields = only.split(';').skip(1).filter_map(|field| field.split_once('='));
    let mut ids = fields.filter(|(key, _)| key.trim_matches([' ', '\t']) == "id");
    let (_, id) = ids.next()?;
    let id = id.trim_matches([' ', '\t']);
    let is_id = (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
    is_id.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;

    use super::*;

    /// RFC 8461 §3.2 has this example.
    const EXAMPLE: &str = "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\nmx: *.example.net\r\n\
                           mx: backupmx.example.com\r\nmax_age: 604800\r\n";

    #[test]
    fn the_example_of_the_rfc() {
        let policy = Policy::parse(EXAMPLE).unwrap();
        assert_eq!((policy.mode, policy.max_age, policy.mx.len()), (Mode::Enforce, 604_800, 3));
        assert_eq!(Policy::parse(&EXAMPLE.replace("\r\n", "\n")).unwrap(), policy);
        assert_eq!(policy.lines().join("\r\n") + "\r\n", EXAMPLE);
    }

    #[test]
    fn hosts_match_patterns() {
        let policy = Policy::parse(EXAMPLE).unwrap();
        for host in ["mail.example.com", "MAIL.example.COM", "a.example.net", "backupmx.example.com."] {
            assert!(policy.allows(host), "{host}");
        }
        // RFC 8461 §4.1: a star is one label.
        for host in ["example.net", "a.b.example.net", ".example.net", "xmail.example.com", "example.com", ""]
        {
            assert!(!policy.allows(host), "{host}");
        }
    }

    #[test]
    fn texts_that_are_not_policies() {
        let error = |text: &str| Policy::parse(text).unwrap_err();
        assert_eq!(error(""), PolicyError::Version);
        assert_eq!(error("<html>"), PolicyError::Lines);
        assert_eq!(error(&EXAMPLE.replace("STSv1", "STSv2")), PolicyError::Version);
        assert_eq!(error(&EXAMPLE.replace("enforce", "Enforce")), PolicyError::Mode);
        assert_eq!(error(&EXAMPLE.replace("604800", "31557601")), PolicyError::MaxAge);
        assert_eq!(error(&EXAMPLE.replace("604800", "-1")), PolicyError::MaxAge);
        assert_eq!(error(&EXAMPLE.replace("max_age", "x")), PolicyError::MaxAge);
        assert_eq!(error(&EXAMPLE.replace("*.example.net", "a.*.net")), PolicyError::Mx);
        assert_eq!(error("version: STSv1\nmode: testing\nmax_age: 1"), PolicyError::Mx);
        let long = |count: usize| (0..count).map(|n| format!("mx: {n:04}{}\n", ".abcdefghi".repeat(24)));
        let policy = |count: usize| format!("{EXAMPLE}{}", long(count).collect::<String>());
        assert!(Policy::parse(&policy(33)).is_ok());
        assert_eq!(error(&policy(34)), PolicyError::TooLong);
        assert!(Policy::parse("version: STSv1\nmode: none\nmax_age: 1\nmode: enforce\nnew: x").is_ok());
    }

    #[test]
    fn the_record() {
        let id = |texts: &[&str]| policy_id(texts.iter().copied());
        assert_eq!(id(&["v=spf1 -all", "v=STSv1; id=20160831085700Z;"]).as_deref(), Some("20160831085700Z"));
        assert_eq!(id(&["v=STSv1 ; x=y; id = a1"]).as_deref(), Some("a1"));
        // Two, none, and some that are wrong.
        assert_eq!(id(&["v=STSv1; id=1", "v=STSv1; id=2"]), None);
        for wrong in
            ["v=STSv1", "v=STSv1;", "v=STSv1; id=", "v=STSv1; id=a-b", "v=STSv10; id=1", "id=1; v=STSv1;"]
        {
            assert_eq!(id(&[wrong]), None, "{wrong}");
        }
        assert_eq!(id(&[&format!("v=STSv1; id={};", "a".repeat(33))]), None);
    }

    properties! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,200}", host in "[a-z.*]{0,20}") {
            let _ = policy_id([text.as_str()].into_iter());
            if let Ok(policy) = Policy::parse(&text) {
                let _ = policy.allows(&host);
            }
        }
    }
}
