//! The name of a storage of bodies: `cassandra`, or `s3://BUCKET[/PREFIX]`.

use std::fmt;
use std::str::FromStr;

/// The storage of a keyspace's bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyStorage {
    /// In the keyspace itself.
    Cassandra,
    /// In an S3-compatible store.
    S3 {
        /// The bucket, which must exist.
        bucket: String,
        /// The prefix of all names; may be empty. No two keyspaces may share bucket and prefix.
        prefix: String,
    },
}

const SYNTAX: &str = "bodies are kept in `cassandra` or in `s3://BUCKET[/PREFIX]`";

impl FromStr for BodyStorage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "cassandra" {
            return Ok(Self::Cassandra);
        }
        let rest = text
            .strip_prefix("s3://")
            .ok_or_else(|| format!("`{text}` is no storage of bodies: {SYNTAX}"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        // S3's rules for names of buckets, less those that only it can judge; `_` and capitals for
        // older ones.
        let bucket_ok = (3..=63).contains(&bucket.len())
            && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        if !bucket_ok {
            return Err(format!(
                "`{bucket}` cannot be a bucket (3 to 63 letters, digits, `.` and `-`): {SYNTAX}"
            ));
        }
        let part_ok = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        let prefix_ok = prefix.is_empty() || (prefix.len() <= 512 && prefix.split('/').all(part_ok));
        if !prefix_ok {
            return Err(format!(
                "`{prefix}` cannot be a prefix (letters, digits, `.`, `-`, `_`, in parts between `/`): {SYNTAX}"
            ));
        }
        Ok(Self::S3 { bucket: bucket.into(), prefix: prefix.into() })
    }
}

impl fmt::Display for BodyStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cassandra => f.write_str("cassandra"),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn storages_are_read_and_refused_with_the_syntax() {
        for text in ["cassandra", "s3://mail", "s3://mail/a", "s3://my.mail-2/a_b/c.d"] {
            assert_eq!(text.parse::<BodyStorage>().unwrap().to_string(), text);
        }
        assert_eq!("s3://mail/".parse::<BodyStorage>().unwrap().to_string(), "s3://mail");
        for (text, word) in [
            ("", "no storage of bodies"),
            ("Cassandra", "no storage of bodies"),
            ("file:///mail", "no storage of bodies"),
            ("s3://", "bucket"),
            ("s3://ab", "bucket"),
            ("s3://a b c", "bucket"),
            ("s3://mail//x", "prefix"),
            ("s3://mail/a//b", "prefix"),
            ("s3://mail/../x", "prefix"),
            ("s3://mail/a?b", "prefix"),
        ] {
            let why = text.parse::<BodyStorage>().unwrap_err();
            assert!(why.contains(word) && why.contains("s3://BUCKET[/PREFIX]"), "{text}: {why}");
        }
    }

    properties! {
        #[test]
        fn parsed_addresses_print_as_they_were(text in "(s3://)?[a-z0-9./_-]{0,40}") {
            if let Ok(storage) = text.parse::<BodyStorage>() {
                prop_assert_eq!(storage.to_string(), text.trim_end_matches('/'));
            }
        }
    }
}
