//! The speeds of the links between the devices of a host.

/// The speeds of the links between the devices of a host, in bytes per microsecond (megabytes per second).
///
/// The default is what four H200 with 18 NVLinks each were measured at, all of them at work: copy engines that write to the other devices
/// send 339 to 358 GB/s, and an all-gather of NCCL 2.28 brings 300 GB/s to each device. (Engines that read from the others
/// bring 176 to 209 GB/s.)
///
/// ```
/// use colex_gpu::ranks::LinkSpeeds;
///
/// let links = LinkSpeeds::default();
/// assert_eq!(links.copies, 330e3);
/// // Each device copies 64 MiB from a peer.
/// assert_eq!((f64::from(64 << 20) / links.copies).round(), 203.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeeds {
    /// The copies of each device, while all others copy too.
    pub copies: f64,
    /// The collectives of NCCL: bytes that each device receives.
    pub nccl: f64,
    /// The microseconds until a copy or a collective begins.
    pub start: f64,
}

impl Default for LinkSpeeds {
    fn default() -> LinkSpeeds {
        LinkSpeeds {
            copies: 330e3,
            nccl: 300e3,
            start: 20.0,
        }
    }
}
