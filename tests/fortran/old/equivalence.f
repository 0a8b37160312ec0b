! ranks: 2
! EQUIVALENCE: numbers of several types in one message of bytes.
      PROGRAM EQUIV
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, I, K(6), STAT(MPI_STATUS_SIZE)
      REAL X(2)
      DOUBLE PRECISION D
      CHARACTER*8 S
      INTEGER BUF(6)
      EQUIVALENCE (BUF(1), X(1)), (BUF(3), K(1)), (BUF(5), D)
      CHARACTER*24 BYTES
      EQUIVALENCE (BUF(1), BYTES), (BUF(3), S)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      DO 10 I = 1, 6
         BUF(I) = 0
   10 CONTINUE
      IF (ME .EQ. 0) THEN
         X(1) = 1.25
         X(2) = -2.5
         S = 'eight ch'
         D = 3.75D0
         CALL MPI_SEND(BUF, 24, MPI_BYTE, 1, 1, MPI_COMM_WORLD, IERR)
      ELSE
         CALL MPI_RECV(BUF, 24, MPI_BYTE, 0, 1, MPI_COMM_WORLD, STAT,
     &                 IERR)
         IF (X(1) .NE. 1.25 .OR. X(2) .NE. -2.5) STOP 1
         IF (S .NE. 'eight ch' .OR. D .NE. 3.75D0) STOP 2
         IF (BYTES(9:13) .NE. 'eight') STOP 3
      END IF
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
