//! The specification's examples, and `compressed-rtf` as a judge in both directions.

use posthaste_property::{one_of, properties};
use proptest::prelude::*;

use super::*;

/// MS-OXRTFCP §3.2.1 and §3.2.2.
const EXAMPLES: [(&[u8], &[u8]); 2] = [
    (
        b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n",
        b"\x2d\0\0\0\x2b\0\0\0LZFu\xf1\xc5\xc7\xa7\x03\0\x0a\0rcpg125B2\x0a\xf3 hel\x09\0 bw\x05\xb0ld}\x0a\x80\x0f\xa0",
    ),
    (
        b"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}",
        b"\x1a\0\0\0\x1c\0\0\0LZFu\xe2\xd4\x4b\x51\x41\0\x04 WXYZ\x0dn}\x01\x0e\xb0",
    ),
];

#[test]
fn the_specifications_examples() {
    for (rtf, compressed) in EXAMPLES {
        assert_eq!(decompress(compressed, 1000).expect("an example"), rtf);
        assert_eq!(decompress(&compress(rtf), 1000).expect("our own"), rtf);
        assert!(compress(rtf).len() <= compressed.len() + 2);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (_, good) = EXAMPLES[0];
    for len in 0..good.len() {
        assert!(matches!(decompress(&good[..len], 1000), Err(Damage::Truncated { .. })), "{len}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        decompress(&bytes, 1000)
    };
    assert_eq!(with(20, 0xFF), Err(Damage::Crc));
    assert_eq!(with(8, b'X'), Err(Damage::Compression(0x7546_5A58)));
    assert_eq!(decompress(good, 42), Err(Damage::Expands { limit: 42 }));
    assert_eq!(decompress(good, 43).map(|rtf| rtf.len()), Ok(43));
    // Bytes after the stream are another's.
    assert!(decompress(&[good, b"more"].concat(), 1000).is_ok());
}

/// The header, its CRC for this content.
fn claiming(content: &[u8], raw_len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_header(&mut bytes, content.len(), raw_len, COMPRESSED, crc(content));
    bytes.extend(content);
    bytes
}

/// The CRC is right, but the text is shorter or longer than the header says.
#[test]
fn lengths_that_lie() {
    let (rtf, good) = EXAMPLES[0];
    let content = &good[16..];
    let (len, said) = (rtf.len(), 0xFFFF_FFF0);
    // It sets no memory aside, either: `expand` takes eight times the content at most.
    assert_eq!(decompress(&claiming(content, said), 1000), Err(Damage::Length { len, said }));
    assert_eq!(decompress(&claiming(content, len - 1), 1000), Err(Damage::Length { len, said: len - 1 }));
    assert_eq!(decompress(&claiming(content, 0), 1000), Err(Damage::Length { len, said: 0 }));
    // Cut off, at each byte: before its last two it has no end.
    for cut in 0..content.len() - 2 {
        let damage = decompress(&claiming(&content[..cut], len), 1000);
        assert!(matches!(damage, Err(Damage::Length { said, .. }) if said == len), "{cut}: {damage:?}");
    }
    // NULs that are not counted.
    let ended = compress(b"{\rtf1 x}\0\0");
    assert!(decompress(&claiming(&ended[16..], 9), 1000).is_ok());
}

#[test]
fn the_uncompressed_form() {
    let stored = store(b"{\\rtf1 a\0b}");
    assert_eq!(decompress(&stored, 1000).as_deref(), Ok(&b"{\\rtf1 a\0b}"[..]));
    let mut lying = stored.clone();
    lying[4] = 0xFF;
    assert_eq!(decompress(&lying, 1000), Err(Damage::Length { len: 11, said: 0xFF }));
    // The rest of a letter after a length that is too small.
    lying[4] = 5;
    assert_eq!(decompress(&lying, 1000), Err(Damage::Length { len: 11, said: 5 }));
    // NULs that are not counted.
    let padded = [store(b"{\\rtf1 a}\0\0").as_slice(), b"more"].concat();
    let counted = |len: u8| [&padded[..4], &[len], &padded[5..]].concat();
    assert_eq!(decompress(&counted(9), 1000).as_deref(), Ok(&b"{\\rtf1 a}"[..]));
    assert_eq!(decompress(&stored, 5), Err(Damage::Expands { limit: 5 }));
}

/// Text that is like RTF: words that come again, at all distances.
fn like_rtf() -> impl Strategy<Value = String> {
    let word = one_of![
        Just("\\par ".to_owned()),
        Just("{\\f0\\fs20 ".to_owned()),
        "[a-z]{1,6} ",
        "a{1,40}",
        "[ -~]{1,20}",
    ];
    prop::collection::vec(word, 0..800).prop_map(|words| words.concat())
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn it_comes_back(rtf in like_rtf()) {
        let compressed = compress(rtf.as_bytes());
        prop_assert_eq!(decompress(&compressed, rtf.len()).expect("our own"), rtf.as_bytes());
        prop_assert_eq!(&compress(rtf.as_bytes()), &compressed);
        // The judge reads ours.
        prop_assert_eq!(&compressed_rtf::decompress_rtf(&compressed).expect("the judge"), &rtf);
    }

    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        prop_assert_eq!(decompress(&compress(&bytes), bytes.len()).expect("our own"), bytes);
    }
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn we_read_the_judge(rtf in like_rtf()) {
        let theirs = compressed_rtf::compress_rtf(&rtf).expect("the judge");
        prop_assert_eq!(decompress(&theirs, rtf.len()).expect("the judge's"), rtf.as_bytes());
        // Ours is about as short: theirs also takes runs of two.
        let ours = compress(rtf.as_bytes()).len();
        prop_assert!(ours <= theirs.len() + theirs.len() / 20 + 16, "{} {}", ours, theirs.len());
    }
}
