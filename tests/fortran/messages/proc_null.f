! ranks: 1 2 4
! Messages to and from nobody at the ends of a line of processes.
      PROGRAM NOBODY
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, UP, DOWN, V, STAT(MPI_STATUS_SIZE), N
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      UP = ME + 1
      IF (UP .EQ. NP) UP = MPI_PROC_NULL
      DOWN = ME - 1
      IF (DOWN .LT. 0) DOWN = MPI_PROC_NULL
      V = -1
      CALL MPI_SENDRECV(ME, 1, MPI_INTEGER, UP, 3, V, 1, MPI_INTEGER,
     &                  DOWN, 3, MPI_COMM_WORLD, STAT, IERR)
      CALL MPI_GET_COUNT(STAT, MPI_INTEGER, N, IERR)
      IF (ME .EQ. 0) THEN
         IF (V .NE. -1 .OR. N .NE. 0) STOP 1
         IF (STAT(MPI_SOURCE) .NE. MPI_PROC_NULL) STOP 2
         IF (STAT(MPI_TAG) .NE. MPI_ANY_TAG) STOP 3
      ELSE
         IF (V .NE. ME-1 .OR. N .NE. 1) STOP 4
         IF (STAT(MPI_SOURCE) .NE. ME-1) STOP 5
      END IF
      CALL MPI_PROBE(MPI_PROC_NULL, 3, MPI_COMM_WORLD, STAT, IERR)
      IF (STAT(MPI_SOURCE) .NE. MPI_PROC_NULL) STOP 6
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
