//! A port behind which another one is far away: each byte arrives later, in both directions.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Opens a port whose connections lead to `target`, for as long as the process lives. A round trip
/// takes this time longer.
pub(crate) fn open(target: u16, round_trip: Duration) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else { continue };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            carry(near, far, round_trip / 2);
            carry(far_too, near_too, round_trip / 2);
        }
    });
    port
}

/// Carries the bytes of one direction until its end.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    to.set_nodelay(true).unwrap();
    let (sender, pieces) = channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in pieces {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        // The other side may have ended it before.
        let _ = to.shutdown(Shutdown::Both);
    });
}
