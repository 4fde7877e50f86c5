//! Several devices of one machine: memory of each, and launches on all of them.

use crate::machine::ranks::Peers;
use crate::machine::simulate_on_ranks;
use crate::options::SimOptions;
use crate::report::Report;
use crate::report::fault::{Fault, FaultKind};
use crate::state::memory::{Error, ErrorKind, Memory};
use colex_ir::Kernel;
use colex_ir::launch::{Argument, Launch};

/// The devices of one simulated machine, each called by its rank.
///
/// The addresses of all ranks are apart (CUDA's unified virtual addresses), so a pointer into the memory of another rank,
/// a peer pointer, is passed as any other. A kernel may follow it only if [`Ranks::enable_peer_access`] allows that.
///
/// A launch runs one kernel on all ranks, with arguments for each. Two accesses of one byte by threads of two ranks are a
/// data race unless a release and an acquire order them, both at the scope of the system (`.sys`; PTX ISA, memory consistency
/// model); the fault names the byte, the ranks and the half that is missing. A rank that waits for a flag that no
/// rank sets any more ends the launch with a [`FaultKind::Deadlock`], whose [`Fault::flag_waits`] name rank and flag.
///
/// A rank that ends lets the next work on its stream begin, so each access of its memory by another rank has to be ordered
/// before its end, else the fault is an [`FaultKind::EarlyExit`]; [`Ranks::host_joins`] says that the host waits for all
/// ranks in between.
///
/// A [`Schedule`](crate::Schedule) chooses also between ranks: the latest one starts them in their order and runs each as far
/// as it gets, the earliest one in the opposite order, a random one lets them run beside each other.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::launch::{Argument, Launch};
/// use colex_ir::{Access, Compare, KernelBuilder, Order, Scope, Space, Type};
/// use colex_sim::{FaultKind, Ranks, SimOptions};
///
/// // Each of two ranks writes a word into the other's memory, raises a flag there, and waits for its own.
/// let exchange = |release: Order| {
///     let mut k = KernelBuilder::new("exchange", Arch::Sm90a);
///     let (mine, theirs) = (k.pointer("mine"), k.pointer("theirs"));
///     let (mine, theirs) = (k.param(mine), k.param(theirs));
///     let word = Access::new(Space::Global, Type::U32);
///     k.store(word, theirs, 7);
///     let flag = k.add(Type::S64, theirs, 128);
///     k.store(word.order(release), flag, 1);
///     let flag = k.add(Type::S64, mine, 128);
///     k.loop_(|k| {
///         let seen = k.load(word.order(Order::Acquire(Scope::Sys)), flag);
///         let there = k.setp(Compare::Ne, Type::U32, seen, 0);
///         k.break_if(there);
///     });
///     k.load(word, mine);
///     k.finish()
/// };
/// let run = |release: Order| {
///     let mut ranks = Ranks::connected(2)?;
///     let at = [ranks.allocate(0, 256)?, ranks.allocate(1, 256)?];
///     at.iter().try_for_each(|at| ranks.write(*at, &[0; 256]))?;
///     let pointers = |mine: usize| Some(vec![Argument::Pointer(at[mine]), Argument::Pointer(at[1 - mine])]);
///     let arguments = [pointers(0), pointers(1)];
///     let ran = ranks.simulate(&exchange(release), &Launch::new(1, 1), &arguments, &SimOptions::default());
///     Ok::<_, colex_sim::Error>(ran)
/// };
/// assert!(run(Order::Release(Scope::Sys))?.is_ok());
///
/// let fault = run(Order::Release(Scope::Gpu))?.unwrap_err();
/// assert_eq!((fault.kind(), fault.rank()), (FaultKind::Race, Some(1)));
/// assert!(fault.what().starts_with("this writes byte 128 of `mine` of rank 0, and "));
/// assert!(fault.what().ends_with("both need the scope of the system, `.sys`, where threads of two devices meet"));
/// # Ok::<(), colex_sim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ranks {
    memory: Memory,
    peers: Peers,
}

impl Ranks {
    /// The most ranks of a machine.
    pub const MOST: usize = 64;

    /// Builds a machine of some devices, none of which has access to the memory of another.
    ///
    /// # Errors
    ///
    /// Returns an error unless there are 1 to [`Ranks::MOST`] ranks.
    pub fn new(ranks: usize) -> Result<Ranks, Error> {
        if !(1..=Ranks::MOST).contains(&ranks) {
            let most = Ranks::MOST;
            return Err(ErrorKind::Ranks { ranks, most }.into());
        }
        Ok(Ranks {
            memory: Memory::default(),
            peers: Peers {
                reach: vec![vec![false; ranks]; ranks],
                joined: false,
                reductions_meet: false,
            },
        })
    }

    /// Builds a machine of some devices, each of which has access to the memory of all others.
    ///
    /// # Errors
    ///
    /// As [`Ranks::new`].
    pub fn connected(ranks: usize) -> Result<Ranks, Error> {
        let mut all = Ranks::new(ranks)?;
        all.peers.reach = vec![vec![true; ranks]; ranks];
        Ok(all)
    }

    /// Returns the number of ranks.
    pub fn count(&self) -> usize {
        self.peers.reach.len()
    }

    fn check(&self, rank: usize) -> Result<u32, Error> {
        let ranks = self.count();
        if rank < ranks {
            Ok(rank as u32)
        } else {
            Err(ErrorKind::NoRank { rank, ranks }.into())
        }
    }

    /// Gives kernels of rank `from` access to the memory of rank `to`, as `cuCtxEnablePeerAccess` does: the other direction is
    /// given apart.
    ///
    /// ```
    /// use colex_sim::Ranks;
    ///
    /// let mut ranks = Ranks::new(2)?;
    /// ranks.enable_peer_access(0, 1)?;
    /// assert_eq!([[0, 1], [1, 0]].map(|[from, to]| ranks.reaches(from, to)), [true, false]);
    /// let error = ranks.enable_peer_access(0, 2).unwrap_err();
    /// assert!(error.is_rank());
    /// assert_eq!(error.to_string(), "rank 2 of a machine of 2 ranks, numbered from 0");
    /// # Ok::<(), colex_sim::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn enable_peer_access(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.check(from)?;
        self.check(to)?;
        self.peers.reach[from][to] = true;
        Ok(())
    }

    /// Returns whether kernels of rank `from` have access to the memory of rank `to`.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        from == to && from < self.count()
            || self
                .peers
                .reach
                .get(from)
                .and_then(|row| row.get(to))
                .is_some_and(|reaches| *reaches)
    }

    /// Says whether the host waits for all ranks after a launch, before anything else uses their memory. It does not by
    /// default.
    pub fn host_joins(&mut self, joins: bool) {
        self.peers.joined = joins;
    }

    /// Says whether the reductions of bulk copies of several ranks (`cp.reduce.async.bulk`) are atomic with each other. They are
    /// not by default: the PTX ISA gives each of them the order `.relaxed.gpu`, whose scope is one device. Links between devices may
    /// carry atomic operations to the device that has the memory; a program that relies on it says so here.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::{Argument, Launch};
    /// use colex_ir::{Access, Address, Base, CopyArgs, End, FenceKind, KernelBuilder, Space, Type};
    /// use colex_sim::{FaultKind, Ranks, SimOptions};
    ///
    /// // Each of two ranks adds 1 to four numbers of rank 0.
    /// let mut k = KernelBuilder::new("add", Arch::Sm90a);
    /// let sums = k.pointer("sums");
    /// let sums = k.param(sums);
    /// k.dynamic_shared(16);
    /// let ones = k.address_of(Base::DynamicShared);
    /// for i in 0..4 {
    ///     let one = k.mov(Type::F32, 1.0);
    ///     k.store(Access::new(Space::Shared, Type::F32), Address::from(ones).at(4 * i), one);
    /// }
    /// k.fence(FenceKind::ProxyAsyncShared);
    /// let add = colex_atom::copy("SM90_BULK_REDUCE_ADD_F32_S2G").expect("an atom of the table");
    /// let (dst, src) = (End::Memory(sums.into()), End::Memory(ones.into()));
    /// k.copy_atom(&add, CopyArgs { dst, src, size: Some(16.into()), ..CopyArgs::default() });
    /// k.bulk_commit();
    /// k.bulk_wait(0, false);
    /// let kernel = k.finish();
    ///
    /// let run = |meet: bool| {
    ///     let mut ranks = Ranks::connected(2)?;
    ///     ranks.host_joins(true);
    ///     ranks.reductions_meet(meet);
    ///     let sums = ranks.allocate(0, 16)?;
    ///     ranks.write(sums, &[0; 16])?;
    ///     let arguments = [0, 1].map(|_| Some(vec![Argument::Pointer(sums)]));
    ///     let launch = Launch::new(1, 1).dynamic_shared(16);
    ///     let ran = ranks.simulate(&kernel, &launch, &arguments, &SimOptions::default());
    ///     Ok::<_, colex_sim::Error>((ran, ranks.read(sums, 4)?))
    /// };
    /// let (ran, sum) = run(true)?;
    /// assert!(ran.is_ok());
    /// assert_eq!(sum, 2.0f32.to_le_bytes());
    ///
    /// let fault = run(false)?.0.unwrap_err();
    /// assert_eq!(fault.kind(), FaultKind::Race);
    /// assert!(fault.what().contains("both are reductions of bulk copies"));
    /// # Ok::<(), colex_sim::Error>(())
    /// ```
    pub fn reductions_meet(&mut self, meet: bool) {
        self.peers.reductions_meet = meet;
    }

    /// Allocates uninitialised bytes in the memory of a rank, as [`Memory::allocate`] does.
    ///
    /// # Errors
    ///
    /// As [`Memory::allocate`], and if there is no such rank.
    pub fn allocate(&mut self, rank: usize, bytes: u64) -> Result<u64, Error> {
        let rank = self.check(rank)?;
        self.memory.allocate_on(rank, bytes)
    }

    /// Returns the rank whose memory holds an address.
    pub fn rank_of(&self, address: u64) -> Option<usize> {
        self.memory.rank_of(address, 1).map(|rank| rank as usize)
    }

    /// Frees an allocation of any rank.
    ///
    /// # Errors
    ///
    /// As [`Memory::free`].
    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        self.memory.free(address)
    }

    /// Reads bytes of any rank's memory on the host.
    ///
    /// # Errors
    ///
    /// As [`Memory::read`].
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        self.memory.read(address, bytes)
    }

    /// Writes bytes of any rank's memory on the host.
    ///
    /// # Errors
    ///
    /// As [`Memory::write`].
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(address, bytes)
    }

    /// Runs a kernel on all ranks at the same time, with one list of arguments for each rank; `None` for a rank that is not
    /// launched. The report counts all ranks together.
    ///
    /// # Errors
    ///
    /// Returns the first [`Fault`] of the kernel on any rank, or of the launch; of a launch also if the arguments are not of as
    /// many ranks as there are, or if no rank is launched.
    pub fn simulate(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        arguments: &[Option<Vec<Argument>>],
        options: &SimOptions,
    ) -> Result<Report, Fault> {
        let ranks = self.count();
        if arguments.len() != ranks {
            let what = format!(
                "arguments for {} ranks, and the machine has {ranks}: one list for each, `None` for a rank that is not launched",
                arguments.len()
            );
            return Err(Fault::new(FaultKind::Launch, what));
        }
        if arguments.iter().all(Option::is_none) {
            let what = format!("none of the {ranks} ranks is launched");
            return Err(Fault::new(FaultKind::Launch, what));
        }
        let Ranks { memory, peers } = self;
        simulate_on_ranks(kernel, launch, (arguments, peers), memory, options)
    }
}
