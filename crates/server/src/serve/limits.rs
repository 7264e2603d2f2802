//! How many connections clients may have, so that descriptors are left for what the server itself does.
//!
//! Of the descriptors of the process, people and programs get a half, and attempts that report a quarter. The rest is
//! for the store, for fetches of repositories, for files of attempts, and for the start of attempts.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipnet::IpNet;

/// The most connections, however many descriptors there are: each one needs memory.
const MOST: u64 = 4096;

/// The fewest, so that a low limit of descriptors still lets people in.
const FEWEST: u64 = 16;

/// The time between two messages about refused connections.
const WARN_AGAIN: Duration = Duration::from_mins(1);

/// The descriptors of a process whose limit is unknown.
pub(super) const UNKNOWN_LIMIT: u64 = 1024;

/// The most connections of a listener.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Limits {
    /// Of all clients.
    pub(super) all: usize,
    /// Of one address. A network of IPv6 with 64 bits counts as one address.
    pub(super) per_address: usize,
}

impl Limits {
    /// Those of the listener for people and programs, of a process with so many descriptors.
    pub(super) fn of_people(descriptors: u64) -> Self {
        let all = bounded(descriptors / 2);
        Self { all, per_address: all / 4 }
    }

    /// Those of the listener for attempts, all of which have the address of this machine.
    pub(super) fn of_attempts(descriptors: u64) -> Self {
        let all = bounded(descriptors / 4);
        Self { all, per_address: all }
    }
}

fn bounded(connections: u64) -> usize {
    usize::try_from(connections.clamp(FEWEST, MOST)).expect("4,096 fits")
}

/// The connections of a listener.
#[derive(Clone, Debug)]
pub(super) struct Places {
    limits: Limits,
    /// The proxies that are trusted: each has connections for many clients.
    proxies: Arc<[IpNet]>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    warned: Option<Instant>,
}

/// The right to have a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<Mutex<Taken>>,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(limits: Limits, proxies: &[IpNet]) -> Self {
        Self { limits, proxies: proxies.into(), taken: Arc::default() }
    }

    /// A place for a connection from `address`; `None` if there is none, which is logged once in a minute.
    pub(super) fn take(&self, address: IpAddr, now: Instant) -> Option<Place> {
        let address = counted(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.by_address.get(&address).copied().unwrap_or_default();
        let is_proxy = self.proxies.iter().any(|network| network.contains(&address));
        let is_too_many = own >= self.limits.per_address && !is_proxy;
        if taken.all >= self.limits.all || is_too_many {
            if taken.warned.is_none_or(|warned| now.duration_since(warned) >= WARN_AGAIN) {
                taken.warned = Some(now);
                let Limits { all, per_address } = self.limits;
                tracing::warn!(%address, own, open = taken.all, "a connection is refused: there are at most {all}, and {per_address} from one address");
            }
            return None;
        }
        taken.all += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Some(Place { taken: Arc::clone(&self.taken), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(own) = taken.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// The address that counts: a client with an address of IPv6 usually has its whole network of 64 bits.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_for_the_server_itself() {
        for (descriptors, people, per_address, attempts) in [
            (64, 32, 8, 16),
            (256, 128, 32, 64),
            (1024, 512, 128, 256),
            (4096, 2048, 512, 1024),
            (1 << 20, 4096, 1024, 4096),
            (u64::MAX, 4096, 1024, 4096),
        ] {
            assert_eq!(Limits::of_people(descriptors), Limits { all: people, per_address });
            let expected = Limits { all: attempts, per_address: attempts };
            assert_eq!(Limits::of_attempts(descriptors), expected, "{descriptors}");
            assert!((people + attempts) as u64 <= descriptors / 4 * 3, "{descriptors}");
        }
    }

    #[test]
    fn one_address_cannot_take_all_places_and_a_place_is_free_again() {
        let proxies = ["10.1.0.0/16".parse().unwrap()];
        let places = Places::new(Limits { all: 6, per_address: 2 }, &proxies);
        let take = |address: &str| places.take(address.parse().unwrap(), Instant::now());
        let mut first = vec![take("192.0.2.1").unwrap(), take("::ffff:192.0.2.1").unwrap()];
        assert!(take("192.0.2.1").is_none(), "an address");
        let second = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        assert!(take("2001:db8::3").is_none(), "a network of IPv6");
        first.pop();
        let again = take("192.0.2.1").unwrap();
        drop((first, again, second));
        let proxy: Vec<_> = (0..6).map(|_| take("10.1.2.3").unwrap()).collect();
        assert!(take("192.0.2.9").is_none(), "all");
        drop(proxy);
        assert_eq!(places.taken.lock().unwrap().by_address.len(), 0);
    }
}
