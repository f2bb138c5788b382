/* Going to sleep and waking, with store buffers explicit: src/comm/engine.cpp.
 *
 * Two threads of one rank (one that waits, the executor) may sleep on the rank's bed; a poster of
 * another rank wakes them once for something else, then stores a flag and looks at the bed. The bed
 * is a counter, odd while someone sleeps or is about to. The kernel's futex compares and queues in
 * one step. Nobody may sleep for ever once the flag is set: the model has no time slices, so a lost
 * wake-up is a state without successor.
 *
 * Atomic read-modify-writes act on memory with the buffer empty (x86: locked instructions; ARM:
 * seq_cst). Planted faults, each of which must be found: NO_FENCE (the flag is a plain store),
 * NO_SECOND_LOOK, NO_COUNTER (the bed is a bit: a wake between arming and sleeping is forgotten
 * when the other thread arms it again), EARLY_VALUE (who finds the bed armed and then woken sleeps
 * on the value that the next arming will give it).
 *
 *   spin -a bed.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan
 */
byte bed = 0;
bool flag = false;      /* in memory */
bool buffered = false;  /* the poster's store, not yet in memory */
byte asleep = 0;        /* threads queued in the kernel, a bit each */
byte done = 0;

#ifdef NO_COUNTER
#define ARMED(x) 1
#define WOKEN(x) 0
#else
#define ARMED(x) ((x) + 1)
#define WOKEN(x) ((x) + 1)
#endif

proctype Sleeper(byte me) {
  byte mine;
  bool seen;
  do
  :: flag -> break
  :: else ->
#ifdef EARLY_VALUE
    mine = bed;
    if
    :: (mine & 1) == 0 ->
      atomic {
        if
        :: bed == mine -> bed = ARMED(bed); mine = bed
        :: else -> mine = bed | 1
        fi
      }
    :: else -> mine = bed | 1  /* armed; but perhaps woken since */
    fi;
#else
    atomic {  /* arm(): a compare-and-swap */
      if
      :: (bed & 1) == 0 -> bed = ARMED(bed)
      :: else
      fi;
      mine = bed
    }
#endif
#ifndef NO_SECOND_LOOK
    seen = flag;
    if
    :: seen -> break
    :: else
    fi;
#endif
    atomic {  /* futex(FUTEX_WAIT, mine) */
      if
      :: bed == mine -> asleep = asleep | (1 << me)
      :: else
      fi
    }
    (asleep & (1 << me)) == 0
  od;
  /* on the way out the bed is made even, unless the other one may sleep in it */
  atomic {
    if
    :: (bed & 1) == 1 && asleep == 0 -> bed = WOKEN(bed)
    :: else
    fi
  }
  done = done + 1
}

proctype Flush() {
end:
  do
  :: atomic { buffered -> flag = true; buffered = false }
  od
}

inline wake() {
  seen = bed;
  if
  :: (seen & 1) == 1 ->
    atomic {  /* compare-and-swap, then FUTEX_WAKE for all */
      if
      :: bed == seen -> bed = WOKEN(bed); asleep = 0
      :: else
      fi
    }
  :: else
  fi
}

proctype Poster() {
  byte seen;
  wake();  /* for another operation: the bed changes, the flag does not */
  buffered = true;
#ifndef NO_FENCE
  !buffered;  /* an exchange: goes on when the buffer is empty */
#endif
  wake()
}

init {
  atomic { run Sleeper(0); run Sleeper(1); run Flush(); run Poster() }
}
