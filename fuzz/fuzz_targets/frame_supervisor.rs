//! Any bytes as what a host sends: no panic, no room made for what has not come, and a message
//! that is taken has just one form.
#![no_main]

use clawpen_wire::pen::PenSpec;
use clawpen_wire::supervisor::frame::{self, Inbox};
use clawpen_wire::supervisor::{Request, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(spec) = PenSpec::from_bytes(bytes) {
        assert_eq!(spec.to_bytes().as_deref(), Ok(bytes));
    }
    let mut inbox = Inbox::of_requests();
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = inbox.room();
        assert!(!room.is_empty() && room.len() <= limits::REQUEST_FRAME);
        let (now, later) = rest.split_at(rest.len().min(room.len()).min(7));
        room[..now.len()].copy_from_slice(now);
        rest = later;
        inbox.filled(now.len());
        loop {
            let frame = match inbox.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return,
            };
            let Ok(request) = frame.decode::<Request<'_>>() else { continue };
            let mut again = Vec::new();
            frame::append(&mut again, frame.channel, &request).expect("it came that way");
            assert_eq!(again[8..], *frame.message());
        }
    }
});
