//! Strategies for what extensions may add to a response: the generic syntax of RFC 9051 §9 and
//! RFC 4466 §4. The extensions are ones that nobody has defined.

use posthaste_imap_codec::print;
use posthaste_property::one_of;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::any_value::number64;

/// `tagged-ext-label`: also longer than every word of the grammar.
pub fn label() -> BoxedStrategy<String> {
    one_of![3 => "X[A-Za-z0-9._:-]{0,12}", 1 => "_[A-Za-z0-9._:-]{24,40}"]
}

/// `tagged-ext-simple`: a number, or a set of numbers.
fn simple() -> BoxedStrategy<Vec<u8>> {
    one_of![
        number64().prop_map(|n| n.to_string().into_bytes()),
        "[1-9][0-9]{0,4}(:[1-9][0-9]{0,4}|:\\*)?(,[1-9][0-9]{0,4}){0,3}".prop_map(String::into_bytes),
        prop::sample::select(vec!["*", "$", "0"]).prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// `string`: in quotes, or a literal, which holds any octet but NUL.
fn string() -> BoxedStrategy<Vec<u8>> {
    let quoted = "[ -~]{0,12}".prop_map(|text| {
        let mut out = Vec::new();
        print::quoted(&mut out, text.as_bytes());
        out
    });
    let literal = vec(1_u8..=255, 0..12).prop_map(|bytes| {
        let mut out = Vec::new();
        print::literal(&mut out, &bytes);
        out
    });
    one_of![2 => quoted, 1 => literal]
}

/// `astring`
pub fn astring() -> BoxedStrategy<Vec<u8>> {
    let atom = "[A-Za-z0-9!#$&'+,./:;<=>?@^_`|}~-]{1,9}".prop_map(String::into_bytes);
    one_of![2 => atom, 1 => string()]
}

fn parenthesised(items: &[Vec<u8>]) -> Vec<u8> {
    [&b"("[..], &items.join(&b' '), b")"].concat()
}

/// `tagged-ext-val`: a simple value, or values in parentheses, which may be nested.
pub fn value() -> BoxedStrategy<Vec<u8>> {
    let nested =
        astring().prop_recursive(4, 16, 3, |inner| vec(inner, 1..4).prop_map(|items| parenthesised(&items)));
    one_of![1 => simple(), 2 => vec(nested, 0..4).prop_map(|items| parenthesised(&items))]
}

/// `tagged-ext`: also an unknown item of STATUS, and unknown data of ESEARCH.
pub fn tagged() -> BoxedStrategy<Vec<u8>> {
    (label(), value()).prop_map(|(label, value)| [label.as_bytes(), b" ", &value].concat()).boxed()
}

/// `mbox-list-extended-item`: its tag may be any string.
pub fn list_item() -> BoxedStrategy<Vec<u8>> {
    (astring(), value()).prop_map(|(tag, value)| [&tag[..], b" ", &value].concat()).boxed()
}

/// `namespace-response-extension`, TRANSLATION of RFC 5255 §3.4 among them.
pub fn of_namespace() -> BoxedStrategy<Vec<u8>> {
    let name = one_of![3 => string(), 1 => Just(b"\"TRANSLATION\"".to_vec())];
    (name, vec(string(), 1..4))
        .prop_map(|(name, values)| [&name[..], b" ", &parenthesised(&values)].concat())
        .boxed()
}

/// `body-extension`, which may be nested.
pub fn of_body() -> BoxedStrategy<Vec<u8>> {
    let number = number64().prop_map(|n| n.to_string().into_bytes());
    one_of![Just(b"NIL".to_vec()), number, string()]
        .prop_recursive(4, 16, 3, |inner| vec(inner, 1..4).prop_map(|items| parenthesised(&items)))
        .boxed()
}
