//! Every variant of the values that the grammar has is made by a strategy. Enumerations with a list
//! of all their variants are made from that list.

/// The strategies, as text.
const STRATEGIES: [&str; 3] =
    [include_str!("any_command.rs"), include_str!("any_response.rs"), include_str!("any_value.rs")];

/// Files of the codec, and enumerations in them.
const VALUES: [(&str, &[&str]); 15] = [
    (
        include_str!("../../src/command/mod.rs"),
        &["CommandBody", "UrlFetchParam", "StoreAction", "StoreAnswer", "AppendContent", "AppendForm"],
    ),
    (include_str!("../../src/command/fetch.rs"), &["FetchItem", "SnippetName"]),
    (include_str!("../../src/command/mailbox.rs"), &["Access", "SpecialUse", "ListSyntax"]),
    (include_str!("../../src/command/notify.rs"), &["Notify", "MailboxFilter", "Event"]),
    (include_str!("../../src/command/search.rs"), &["Charset", "SearchKey", "EntryScope"]),
    (include_str!("../../src/sequence.rs"), &["SequenceSet", "Numbering"]),
    (include_str!("../../src/section.rs"), &["SectionText"]),
    (include_str!("../../src/url/mod.rs"), &["UrlAccess"]),
    (include_str!("../../src/acl.rs"), &["AclCommand", "RightsChange", "AclData"]),
    (include_str!("../../src/annotation.rs"), &["MetadataCode"]),
    (include_str!("../../src/response/mod.rs"), &["Response", "StatusKind"]),
    (include_str!("../../src/response/data.rs"), &["Untagged", "ListAttribute", "StatusValue", "UpdateKind"]),
    (include_str!("../../src/response/fetch.rs"), &["FetchValue"]),
    (include_str!("../../src/response/code.rs"), &["Code"]),
    (include_str!("../../src/response/structure.rs"), &["BodyStructure", "PartKind"]),
];

/// The variants of an enumeration, as rustfmt lays them out.
fn variants<'s>(source: &'s str, name: &str) -> Vec<&'s str> {
    let (_, rest) = source.split_once(&format!("\npub enum {name}")).expect("an enumeration");
    let (body, _) = rest.split_once("\n}").expect("its end");
    let is_in_word = |c: char| c.is_ascii_alphanumeric();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let starts = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    starts.filter_map(|line| line.split(|c| !is_in_word(c)).next()).collect()
}

/// The names of an enumeration in a file: its own, and the one of `use … as …`.
fn names_of<'s>(file: &'s str, name: &'s str) -> Vec<&'s str> {
    let renamed = format!("use {name} as ");
    let others = file.match_indices(&renamed).filter_map(|(at, _)| {
        let rest = &file[at + renamed.len()..];
        rest.split_once(';').map(|(other, _)| other)
    });
    others.chain([name]).collect()
}

/// Whether a file has a path that ends in `name::variant`.
fn makes(file: &str, name: &str, variant: &str) -> bool {
    let paths = file.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':'));
    paths.filter_map(|path| path.rsplit_once("::")).any(|(of, last)| {
        let of = of.rsplit_once("::").map_or(of, |(_, of)| of);
        (of, last) == (name, variant)
    })
}

#[test]
fn every_variant_has_a_strategy() {
    for (source, names) in VALUES {
        for name in names {
            let variants = variants(source, name);
            assert!(variants.len() > 1, "{name}: {variants:?}");
            for variant in variants {
                let is_made = STRATEGIES
                    .iter()
                    .any(|file| names_of(file, name).iter().any(|of| makes(file, of, variant)));
                assert!(is_made, "no strategy makes {name}::{variant}");
            }
        }
    }
}
