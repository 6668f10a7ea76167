//! Models there and back.

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use crate::tags::{IID_MESSAGE, IID_STORAGE, attribute};
use crate::{
    Attachment, Attribute, Content, DEPTH_MAX, Damage, EncodeError, Kind, Message, Name, NameKey, Object,
    Property, Rendering, Value, decode, encode,
};

fn one_value(kind: Kind, depth: u32) -> BoxedStrategy<Value> {
    match kind {
        Kind::Null => Just(Value::Null).boxed(),
        Kind::Int16 => any::<i16>().prop_map(Value::Int16).boxed(),
        Kind::Int32 => any::<i32>().prop_map(Value::Int32).boxed(),
        Kind::Float32 => any::<u32>().prop_map(Value::Float32).boxed(),
        Kind::Float64 => any::<u64>().prop_map(Value::Float64).boxed(),
        Kind::Currency => any::<i64>().prop_map(Value::Currency).boxed(),
        Kind::AppTime => any::<u64>().prop_map(Value::AppTime).boxed(),
        Kind::Error => any::<u32>().prop_map(Value::Error).boxed(),
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Int64 => any::<i64>().prop_map(Value::Int64).boxed(),
        Kind::String8 => bytes().prop_map(Value::String8).boxed(),
        Kind::String => ".{0,9}".prop_map(Value::String).boxed(),
        Kind::Time => any::<u64>().prop_map(Value::Time).boxed(),
        Kind::Guid => any::<[u8; 16]>().prop_map(Value::Guid).boxed(),
        Kind::Binary => bytes().prop_map(Value::Binary).boxed(),
        Kind::Object => object(depth).prop_map(|object| Value::Object(Box::new(object))).boxed(),
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..9)
}

fn object(depth: u32) -> BoxedStrategy<Object> {
    let storage =
        bytes().prop_map(|bytes| Object { interface: IID_STORAGE, content: Content::Bytes(bytes) }).boxed();
    if depth == 0 {
        return storage;
    }
    let nested = message(depth - 1)
        .prop_map(|message| Object { interface: IID_MESSAGE, content: Content::Message(message) });
    one_of![storage, nested]
}

fn value(depth: u32) -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    (kind, any::<bool>()).prop_flat_map(move |(kind, is_list)| {
        if is_list {
            let several = prop::collection::vec(one_value(kind, depth), 0..4);
            several.prop_map(move |values| Value::Many(kind, values)).boxed()
        } else {
            one_value(kind, depth)
        }
    })
}

fn property(depth: u32) -> impl Strategy<Value = Property> {
    let key = one_of![any::<u32>().prop_map(NameKey::Number), ".{0,9}".prop_map(NameKey::Text)];
    let name = (any::<[u8; 16]>(), key).prop_map(|(set, key)| Box::new(Name { set, key }));
    (any::<u16>(), name, value(depth)).prop_map(|(id, name, value)| Property {
        id,
        name: (id >= 0x8000).then_some(name),
        value,
    })
}

fn properties(depth: u32) -> impl Strategy<Value = Vec<Property>> {
    prop::collection::vec(property(depth), 0..4)
}

fn attributes() -> impl Strategy<Value = Vec<Attribute>> {
    let ids = [attribute::SUBJECT, attribute::BODY, attribute::ATTACH_DATA, attribute::ATTACH_TITLE, 7];
    let one = (prop::sample::select(ids.to_vec()), bytes()).prop_map(|(id, data)| Attribute { id, data });
    prop::collection::vec(one, 0..4)
}

fn rendering() -> impl Strategy<Value = Rendering> {
    any::<(u16, u32, u16, u16, u32)>().prop_map(|(kind, position, width, height, flags)| Rendering {
        kind,
        position,
        width,
        height,
        flags,
    })
}

fn message(depth: u32) -> impl Strategy<Value = Message> {
    let attachment = (rendering(), attributes(), properties(depth))
        .prop_map(|(rendering, attributes, properties)| Attachment { rendering, attributes, properties });
    let tables = (prop::collection::vec(properties(0), 0..3), prop::collection::vec(attachment, 0..3));
    (any::<(u16, u32, u32)>(), attributes(), properties(depth), tables).prop_map(
        |((key, code_page, code_page_secondary), attributes, properties, (recipients, attachments))| {
            Message { key, code_page, code_page_secondary, attributes, properties, recipients, attachments }
        },
    )
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_message_comes_back(message in message(2)) {
        let bytes = encode(&message).expect("a message of valid values");
        prop_assert_eq!(encode(&message), Ok(bytes.clone()));
        prop_assert_eq!(decode(&bytes).expect("what was just written"), message);
    }

    #[test]
    fn what_is_cut_off_or_changed_is_refused(message in message(1), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let bytes = encode(&message).expect("a message of valid values");
        let at = at.index(bytes.len());
        // A cut between attributes leaves a shorter message. Any other is seen.
        if let Ok(shorter) = decode(&bytes[..at]) {
            let again = encode(&shorter).expect("what was read");
            prop_assert!(again.len() <= bytes.len());
        }
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        // The sum over the data sees every single bit; key, level and id have no sum.
        if let Ok(other) = decode(&changed) {
            prop_assert!(encode(&other).is_ok());
            prop_assert_ne!(other, message);
        }
    }
}

fn with(property: Property) -> Message {
    Message { properties: vec![property], ..Message::default() }
}

#[test]
fn models_that_mean_nothing_are_refused() {
    let named = Property::named((IID_STORAGE, 1), Value::Null);
    let refused = [
        (with(Property { id: 1, ..named.clone() }), EncodeError::Name(1)),
        (with(Property { name: None, ..named }), EncodeError::Name(0x8000)),
        (with(Property::new(2, Value::Many(Kind::Int32, vec![Value::Int16(1)]))), EncodeError::Mixed(2)),
        (
            with(Property::new(3, Value::Many(Kind::Null, vec![Value::Many(Kind::Null, vec![])]))),
            EncodeError::Mixed(3),
        ),
    ];
    for (message, why) in refused {
        assert_eq!(encode(&message), Err(why));
    }
    let attributes = vec![Attribute { id: attribute::MSG_PROPS, data: vec![] }];
    let message = Message { attributes, ..Message::default() };
    assert_eq!(encode(&message), Err(EncodeError::Structural(attribute::MSG_PROPS)));
}

fn nested(levels: usize) -> Message {
    let mut message = Message::default();
    for _ in 0..levels {
        let object = Object { interface: IID_MESSAGE, content: Content::Message(message) };
        message = with(Property::new(crate::tags::property::ATTACH_DATA, Value::Object(Box::new(object))));
    }
    message
}

fn depth(message: &Message) -> usize {
    let inner = message.properties.iter().find_map(|property| match &property.value {
        Value::Object(object) => Some(&object.content),
        _ => None,
    });
    1 + match inner {
        Some(Content::Message(message)) => depth(message),
        _ => 0,
    }
}

#[test]
fn messages_nest_to_a_bound_and_stay_bytes_beyond() {
    let deepest = nested(DEPTH_MAX - 1);
    assert_eq!(decode(&encode(&deepest).expect("valid")), Ok(deepest));
    let too_deep = encode(&nested(DEPTH_MAX + 9)).expect("valid");
    let read = decode(&too_deep).expect("the outer levels");
    assert_eq!(depth(&read), DEPTH_MAX);
    // Nothing is lost: it is written as it was.
    assert_eq!(encode(&read), Ok(too_deep.clone()));
    let mut why = Vec::new();
    crate::decode::decode_and_name(&too_deep, &mut |reason| why.push(reason)).expect("the same");
    assert_eq!(why, [Damage::Depth { limit: DEPTH_MAX }]);
}

#[test]
fn lists_of_values_are_bounded() {
    let values = vec![Value::Null; crate::VALUES_MAX];
    let bytes = encode(&with(Property::new(1, Value::Many(Kind::Null, values)))).expect("valid");
    assert_eq!(decode(&bytes), Err(Damage::TooMany { limit: crate::VALUES_MAX }));
    // 4 billion empty values in 12 bytes.
    let mut bytes = encode(&with(Property::new(1, Value::Many(Kind::Null, vec![])))).expect("valid");
    let at = bytes.len() - 6;
    bytes[at..].copy_from_slice(b"\xff\xff\xff\xff\x05\x04");
    assert!(matches!(decode(&bytes), Err(Damage::TooMany { .. } | Damage::Checksum { .. })));
}

#[test]
fn what_lists_add_at_the_end_is_passed_over() {
    let mut bytes = encode(&Message::default()).expect("valid");
    bytes.extend(b"\0\0\r\n \n");
    assert_eq!(decode(&bytes), Ok(Message::default()));
    bytes.extend(b"hello");
    assert!(decode(&bytes).is_err());
}

#[test]
fn a_checksum_is_the_sum_of_all_bytes() {
    let bytes: Vec<u8> = (0..5_000u32).map(|n| if n < 3_000 { 0xFF } else { (n * 7) as u8 }).collect();
    for len in (0..40).chain(1_000..1_060).chain(4_980..=5_000) {
        let expected = bytes[..len].iter().fold(0u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
        assert_eq!(crate::decode::checksum(&bytes[..len]), expected, "{len}");
    }
}
