//! A packet socket and its address: with the ring's mapping, the unsafe code of this crate.
//!
//! rustix knows packet sockets, but not how their addresses look (packet(7)).

use std::io;
use std::mem::size_of;
use std::os::fd::OwnedFd;

use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, netdevice, socket_with};

use crate::codec::{EtherType, MacAddress};

/// The system's `struct sockaddr_ll`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkAddress {
    family: u16,
    /// In network byte order.
    protocol: u16,
    interface: i32,
    hardware: u16,
    packet: u8,
    address_bytes: u8,
    address: [u8; 8],
}

const _: () = assert!(size_of::<LinkAddress>() == 20);

/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`.
const ETHERNET: [u16; 2] = [1, 772];

// SAFETY: (1) the pointer is to a whole `LinkAddress`, readable for the call; (2) that is what the kernel takes as an address
// of the family AF_PACKET, which is what `family` says.
unsafe impl SocketAddrArg for LinkAddress {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f(std::ptr::from_ref(self).cast(), size_of::<Self>() as SocketAddrLen)
    }
}

/// A socket that receives this type of frames from this interface, and the interface's address.
pub(super) fn open(interface: &str, receives: EtherType) -> io::Result<(OwnedFd, MacAddress)> {
    let flags = SocketFlags::CLOEXEC;
    // Without a protocol it receives nothing until it is bound, in particular nothing of other interfaces.
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let interface = netdevice::name_to_index(&socket, interface)?;
    let own = LinkAddress {
        family: AddressFamily::PACKET.as_raw(),
        protocol: (receives as u16).to_be(),
        interface: i32::try_from(interface).map_err(io::Error::other)?,
        hardware: 0,
        packet: 0,
        address_bytes: 0,
        address: [0; 8],
    };
    bind(&socket, &own)?;
    let name = getsockname(&socket)?;
    // SAFETY: the kernel wrote `addr_len` bytes of the address, which rustix keeps in storage at least as long.
    let bound = unsafe { std::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.addr_len() as usize) };
    // As in `LinkAddress`, and cut after the bytes of the address that count.
    match *bound {
        [_, _, _, _, _, _, _, _, low, high, _, 6, a, b, c, d, e, f, ..]
            if ETHERNET.contains(&u16::from_ne_bytes([low, high])) =>
        {
            Ok((socket, MacAddress([a, b, c, d, e, f])))
        }
        _ => Err(io::Error::other("the interface is not an Ethernet")),
    }
}
