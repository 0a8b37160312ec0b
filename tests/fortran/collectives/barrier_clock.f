! ranks: 1 2 4
! Nobody leaves a barrier before the last one has come.
      PROGRAM BARCLK
      USE MPI
      IMPLICIT NONE
      INTEGER IERR, ME, NP, K, SEEN
      DOUBLE PRECISION T0, T1, TICK
      INTEGER(MPI_ADDRESS_KIND) BYTES
      INTEGER WIN, COUNTER
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      TICK = MPI_WTICK()
      IF (TICK .LE. 0 .OR. TICK .GT. 1) ERROR STOP 'the tick'
      COUNTER = 0
      BYTES = 4
      CALL MPI_WIN_CREATE(COUNTER, BYTES, 4, MPI_INFO_NULL,
     &                    MPI_COMM_WORLD, WIN, IERR)
      T0 = MPI_WTIME()
      DO K = 1, 5
         CALL MPI_WIN_LOCK(MPI_LOCK_SHARED, 0, 0, WIN, IERR)
         CALL MPI_ACCUMULATE(1, 1, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND,
     &                       1, MPI_INTEGER, MPI_SUM, WIN, IERR)
         CALL MPI_WIN_UNLOCK(0, WIN, IERR)
         CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
         CALL MPI_WIN_LOCK(MPI_LOCK_SHARED, 0, 0, WIN, IERR)
         CALL MPI_GET(SEEN, 1, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, 1,
     &                MPI_INTEGER, WIN, IERR)
         CALL MPI_WIN_UNLOCK(0, WIN, IERR)
         CALL MPI_F_SYNC_REG(SEEN)
         IF (SEEN .LT. K*NP) ERROR STOP 'somebody is missing'
      END DO
      T1 = MPI_WTIME()
      IF (T1 .LT. T0) ERROR STOP 'the clock runs backwards'
      CALL MPI_WIN_FREE(WIN, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
