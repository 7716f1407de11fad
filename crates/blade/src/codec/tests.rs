use proptest::prelude::*;

use super::*;

fn page() -> Page {
    std::array::from_fn(|at| (at * 7 + at / 256) as u8)
}

fn words() -> impl Strategy<Value = Word> {
    (0u16..4096, 0usize..4)
        .prop_filter_map("within the page", |(offset, size)| Word::new(offset, WordSize::ALL[size]))
}

fn requests(page: &Page) -> impl Strategy<Value = Request<'_>> {
    let commands = prop_oneof![
        Just(Command::ReadPage),
        (0usize..3).prop_map(move |part| Command::WritePage(PagePart::of(page, Part::ALL[part]))),
        words().prop_map(Command::ReadWord),
        (words(), any::<u64>()).prop_map(|(word, value)| Command::WriteWord(word, value)),
        (words(), any::<u64>()).prop_map(|(word, value)| Command::Add(word, value)),
        (words(), any::<u64>(), any::<u64>()).prop_map(|(word, new, expected)| Command::CompareAndSwap {
            word,
            new,
            expected
        }),
    ];
    (any::<u32>(), any::<u64>(), commands).prop_map(|(txid, page, command)| Request { txid, page, command })
}

#[test]
fn every_request_comes_back_as_it_went() {
    static PAGE: std::sync::LazyLock<Page> = std::sync::LazyLock::new(page);
    proptest!(|(request in requests(&PAGE), cut in 0usize..1384, more in 1usize..9)| {
        let mut buffer = [0xaa; MAX_MESSAGE_BYTES];
        let message = request.emit(&mut buffer).to_vec();
        prop_assert_eq!(Request::parse(&message), Ok(request));
        prop_assert_eq!(Request::message_bytes(&message), Some(message.len()));
        prop_assert!(Request::parse(&message[..cut % message.len()]).is_err(), "shorter");
        let longer = [message, vec![0; more]].concat();
        let wrong = Request::parse(&longer).unwrap_err();
        prop_assert_eq!(wrong.txid, Some(request.txid));
        let is_length = matches!(wrong.defect, Defect::Length { .. });
        prop_assert!(is_length, "{}", wrong.defect);
    });
}

#[test]
fn every_response_comes_back_as_it_went() {
    let page = page();
    let parts = Part::ALL.map(|part| Answer::Page(PagePart::of(&page, part)));
    let others = [Answer::Done, Answer::Word(0x0123_4567_89ab_cdef), Answer::Refused];
    for answer in parts.into_iter().chain(others) {
        let response = Response { txid: 0x89ab_cdef, answer };
        let mut buffer = [0xaa; MAX_MESSAGE_BYTES];
        let message = response.emit(&mut buffer).to_vec();
        assert_eq!(Response::parse(&message), Ok(response));
        assert_eq!(Response::message_bytes(&message), Some(message.len()));
        for wrong in [&message[..message.len() - 1], &[message.clone(), vec![0]].concat()] {
            assert!(Response::parse(wrong).is_err(), "{answer:?}");
        }
    }
}

#[test]
fn a_request_has_the_bytes_of_the_appendix() {
    let word = Word::new(0xabc, WordSize::Four).unwrap();
    let command = Command::CompareAndSwap { word, new: 0x11, expected: 0x2233 };
    let mut buffer = [0; MAX_MESSAGE_BYTES];
    let message = Request { txid: 0x0102_0304, page: 0x0a0b, command }.emit(&mut buffer);
    let expected = [
        [1, 5, 0, 0, 4, 3, 2, 1],
        [0x0b, 0x0a, 0, 0, 0, 0, 0, 0],
        [0xc2, 0xab, 0, 0, 0, 0, 0, 0],
        [0x11, 0, 0, 0, 0, 0, 0, 0],
        [0x33, 0x22, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(message, expected.concat());
}

#[test]
fn a_page_travels_as_1368_1368_and_1360_bytes() {
    assert_eq!(Part::ALL.map(Part::bytes), [1368, 1368, 1360]);
    assert_eq!(Part::Third.range().end, PAGE_BYTES);
    let (from, mut to) = (page(), [0; PAGE_BYTES]);
    for part in [Part::Third, Part::First, Part::Second] {
        PagePart::of(&from, part).copy_to(&mut to);
    }
    assert_eq!(from, to);
}

#[test]
fn a_readable_header_gives_the_transaction_of_what_is_refused() {
    let header = |version, op, part| [[version, op, part, 0], [7, 0, 0, 0], [0; 4], [0; 4]].concat();
    let defect = |message: &[u8]| {
        let wrong = Request::parse(message).unwrap_err();
        assert_eq!(wrong.txid, Some(7));
        wrong.defect
    };
    assert_eq!(defect(&header(2, 0, 0)), Defect::Version(2));
    assert_eq!(defect(&header(1, 6, 0)), Defect::Code(6));
    assert_eq!(defect(&header(1, 1, 3)), Defect::Part(3));
    assert_eq!(defect(&header(1, 1, 2)), Defect::Length { needed: 1360, found: 0 });
    let crossing = [header(1, 2, 0), vec![0xd3, 0xff, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(defect(&crossing), Defect::Crossing { offset: 4093, bytes: 8 });
    assert_eq!(Request::parse(&[1, 0, 0, 0, 7, 0, 0, 0]).unwrap_err().txid, None);
}

#[test]
fn reserved_bits_are_ignored() {
    let mut message = [0; 24];
    message[..4].copy_from_slice(&[1, 2, 9, 0xff]);
    message[16..].copy_from_slice(&[0x1f, 0x01, 9, 9, 9, 9, 9, 9]);
    let request = Request::parse(&message).unwrap();
    assert_eq!(request.command, Command::ReadWord(Word::new(0x11, WordSize::Eight).unwrap()));
}

#[test]
fn words_end_within_the_page() {
    for size in WordSize::ALL {
        let last = (PAGE_BYTES - size.bytes()) as u16;
        assert!(Word::new(last, size).is_some() && Word::new(last + 1, size).is_none());
    }
    assert_eq!(WordSize::ALL.map(WordSize::mask), [0xff, 0xffff, 0xffff_ffff, u64::MAX]);
}

#[test]
fn frames_carry_messages_with_and_without_pad_and_tag() {
    let (destination, source) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    let mut message = [0; MAX_MESSAGE_BYTES];
    let message = Request { txid: 1, page: 2, command: Command::ReadPage }.emit(&mut message);
    for (pad, vlan, bytes) in
        [(Pad::None, None, 14), (Pad::None, Some(0x2005), 18), (Pad::Two, None, 16), (Pad::Two, Some(5), 20)]
    {
        let header = EthernetHeader { destination, source, vlan, kind: EtherType::Request };
        let mut frame = [0xee; ETHERNET_MAX_BYTES];
        assert_eq!(header.emit(pad, &mut frame), bytes);
        frame[bytes..bytes + message.len()].copy_from_slice(message);
        frame[bytes + message.len()..bytes + MIN_PAYLOAD_BYTES].fill(0);
        for end in [bytes + message.len(), bytes + MIN_PAYLOAD_BYTES] {
            assert_eq!(EthernetHeader::parse(&frame[..end], pad), Ok((header, message)));
        }
        for end in 0..bytes {
            assert_eq!(EthernetHeader::parse(&frame[..end], pad), Err(FrameDefect::Short(end)));
        }
        assert_eq!(&frame[bytes - 2..bytes], [8, 4]);
    }
}

#[test]
fn hardware_addresses_are_read_as_they_are_printed() {
    assert_eq!("02:00:00:00:0a:ff".parse(), Ok(MacAddress([2, 0, 0, 0, 10, 255])));
    assert_eq!(MacAddress([2, 0, 0, 0, 10, 255]).to_string(), "02:00:00:00:0a:ff");
    for wrong in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "+2:00:00:00:00:00"] {
        assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_codec_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Request::parse(&bytes);
        let _ = Response::parse(&bytes);
        let _ = EthernetHeader::parse(&bytes, Pad::Two);
        let _ = EthernetHeader::parse(&bytes, Pad::None);
    }
}
