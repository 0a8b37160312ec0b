! ranks: 1 2 4
! A histogram at one process, to which all add.
      PROGRAM HISTO
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER BINS
      PARAMETER (BINS=8)
      INTEGER IERR, ME, NP, WIN, H(BINS), I, B, ONE
      INTEGER(KIND=MPI_ADDRESS_KIND) SIZE, DISP
      COMMON /MEM/ H
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 I = 1, BINS
         H(I) = 0
   10 CONTINUE
      SIZE = 4*BINS
      CALL MPI_WIN_CREATE(H, SIZE, 4, MPI_INFO_NULL, MPI_COMM_WORLD,
     &                    WIN, IERR)
      CALL MPI_WIN_FENCE(0, WIN, IERR)
      ONE = 1
      DO 20 I = 1, 40
         B = MOD(I*I + ME, BINS)
         DISP = B
         CALL MPI_ACCUMULATE(ONE, 1, MPI_INTEGER, 0, DISP, 1,
     &                       MPI_INTEGER, MPI_SUM, WIN, IERR)
   20 CONTINUE
      CALL MPI_WIN_FENCE(0, WIN, IERR)
      CALL MPI_F_SYNC_REG(H)
      IF (ME .EQ. 0) THEN
         DO 40 ONE = 0, NP - 1
            DO 30 I = 1, 40
               B = MOD(I*I + ONE, BINS)
               H(B+1) = H(B+1) - 1
   30       CONTINUE
   40    CONTINUE
         DO 50 I = 1, BINS
            IF (H(I) .NE. 0) STOP 1
   50    CONTINUE
      END IF
      CALL MPI_WIN_FREE(WIN, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
