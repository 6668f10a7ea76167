//! The name of a keyspace.

/// A keyspace name is put into statements as it is: letters, digits and `_` only, at most 48, as
/// Cassandra has it.
pub(crate) fn keyspace_is_valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 48
        && bytes.next().is_some_and(|b| b.is_ascii_lowercase())
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspace_names() {
        for (name, valid) in [
            ("mail", true),
            ("m_2", true),
            ("", false),
            ("2m", false),
            ("a b", false),
            ("Mail", false),
            ("a;b", false),
        ] {
            assert_eq!(keyspace_is_valid(name), valid, "{name}");
        }
        assert!(!keyspace_is_valid(&"a".repeat(49)));
    }
}
