//! Any bytes as messages and frames of the memory-blade protocol. What is understood comes back as the same bytes, reserved
//! ones aside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagewalk_blade::codec::{
    Command, ETHERNET_MAX_BYTES, EthernetHeader, MAX_MESSAGE_BYTES, Malformed, Pad, Request, Response,
};

fuzz_target!(|data: &[u8]| {
    let mut buffer = [0; MAX_MESSAGE_BYTES];
    match Request::parse(data) {
        Ok(request) => {
            let message = request.emit(&mut buffer);
            assert_eq!(Request::parse(message), Ok(request));
            assert_eq!(Request::message_bytes(data), Some(data.len()));
            let is_part = matches!(request.command, Command::WritePage(_));
            assert!(message.len() == data.len() && message[4..16] == data[4..16]);
            assert!(!is_part || message[16..] == data[16..]);
        }
        Err(Malformed { txid, .. }) => assert_eq!(txid.is_some(), data.len() >= 16),
    }
    match Response::parse(data) {
        Ok(response) => {
            let message = response.emit(&mut buffer);
            assert_eq!(Response::parse(message), Ok(response));
            assert_eq!(Response::message_bytes(data), Some(data.len()));
            assert!(message.len() == data.len() && message[4..] == data[4..]);
        }
        Err(Malformed { txid, .. }) => assert_eq!(txid.is_some(), data.len() >= 8),
    }
    for pad in [Pad::None, Pad::Two] {
        let Ok((header, message)) = EthernetHeader::parse(data, pad) else { continue };
        let mut frame = [0; ETHERNET_MAX_BYTES];
        let bytes = header.emit(pad, &mut frame);
        assert_eq!(frame[pad.bytes()..bytes], data[pad.bytes()..bytes]);
        assert!(data[bytes..].starts_with(message));
    }
});
